#!/bin/sh
# test_areas.sh FILE...: prints the C table of the test areas, one for each test/test_<area>.c among the files. What needs a GPU takes long and comes
# first, so that no job has it for itself at the end.
set -eu
gpu_areas= others=
for file; do
    area=$(basename "$file" .c)
    area=${area#test_}
    case $area in
    main) ;;
    gpu* | kernels* | layers* | model* | session*) gpu_areas="$gpu_areas $area" ;;
    *) others="$others $area" ;;
    esac
done
echo '/* Made by tools/test_areas.sh of the names test/test_<area>.c. */'
echo '#include "test/harness.h"'
echo
for area in $gpu_areas $others; do
    echo "extern const fr_test ${area}_tests[];"
done
echo
echo 'const fr_test_area fr_test_areas[] = {'
for area in $gpu_areas; do
    echo "    {\"$area\", ${area}_tests, true},"
done
for area in $others; do
    echo "    {\"$area\", ${area}_tests, false},"
done
echo '    {0},'
echo '};'
