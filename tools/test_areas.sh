#!/bin/sh
# test_areas.sh FILE...: prints the C table of the test areas, one for each test/test_<area>.c among the files. What takes long comes first,
# so that no job has it for itself at the end; the areas of sessions are one group, whose models are the same.
set -eu
session= model= kernels= others=
for file; do
    area=$(basename "$file" .c)
    area=${area#test_}
    case $area in
    main) ;;
    session*) session="$session $area" ;;
    model*) model="$model $area" ;;
    gpu* | kernels* | layers*) kernels="$kernels $area" ;;
    *) others="$others $area" ;;
    esac
done
rows() { # whether on a GPU, and the group; then areas
    rest=$1
    shift
    for area; do
        echo "    {\"$area\", ${area}_tests, $rest},"
    done
}
echo '/* Made by tools/test_areas.sh of the names test/test_<area>.c. */'
echo '#include "test/harness.h"'
echo
for area in $session $model $kernels $others; do
    echo "extern const fr_test ${area}_tests[];"
done
echo
echo 'const fr_test_area fr_test_areas[] = {'
rows 'true, "session"' $session
rows 'true, NULL' $model $kernels
rows 'false, NULL' $others
echo '    {0},'
echo '};'
