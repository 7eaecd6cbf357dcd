#!/bin/sh
# test_areas.sh FILE...: prints the C table of the test areas, one for each test/test_<area>.c among the files.
set -eu
areas=
for file; do
    area=$(basename "$file" .c)
    [ "$area" = test_main ] || areas="$areas ${area#test_}"
done
echo '/* Made by tools/test_areas.sh of the names test/test_<area>.c. */'
echo '#include "test/harness.h"'
echo
for area in $areas; do
    echo "extern const fr_test ${area}_tests[];"
done
echo
echo 'const fr_test_area fr_test_areas[] = {'
for area in $areas; do
    case $area in
    gpu* | kernels* | model* | session*) gpu=true ;;
    *) gpu=false ;;
    esac
    echo "    {\"$area\", ${area}_tests, $gpu},"
done
echo '    {0},'
echo '};'
