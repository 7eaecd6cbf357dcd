#!/bin/sh
# suites.sh NAME...: runs `make test-NAME` for each in turn, shows its output and keeps it in $LOGS/NAME.log, and ends with the sum of
# what the suites counted, "N passed, N failed, N skipped". A suite that ends badly without a failure counted, or that counts nothing at
# all (it did not build, it died), is one failure more.
set -u
mkdir -p "$LOGS"
passed=0 failed=0 skipped=0

add() { # status of the suite; then what it counted
    status=$1 p=${2-0} f=${3-0} s=${4-0}
    if [ $# -lt 4 ]; then
        echo "suite $name: no result (status $status)"
        f=1
    elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
        echo "suite $name: ended with status $status"
        f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

for name; do
    echo "== $name"
    { ${MAKE:-make} -s "test-$name" 2>&1; echo $? >"$LOGS/$name.status"; } | tee "$LOGS/$name.log"
    # Word splitting is wanted: three numbers or nothing.
    add "$(cat "$LOGS/$name.status")" $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$LOGS/$name.log" | tail -n 1)
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
