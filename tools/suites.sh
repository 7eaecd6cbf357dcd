#!/bin/sh
# suites.sh NAME... [-- NAME...]: runs `make test-NAME` for each in turn, and those behind -- side by side, one for each processor, keeps the output in
# $LOGS/NAME.log and shows it, and ends with the sum of what the suites counted, "N passed, N failed, N skipped". A suite that ends badly without a
# failure counted, or that counts nothing at all (it did not build, it died), is one failure more. Those that run side by side must be built before.
set -u

# One of those side by side: its output is shown in one piece when it is done.
if [ "$1" = --one ]; then
    { ${MAKE:-make} -s "test-$2" 2>&1; echo $? >"$LOGS/$2.status"; } >"$LOGS/$2.log"
    flock "$LOGS/lock" sh -c 'echo "== $1"; cat "$LOGS/$1.log"' sh "$2"
    exit 0
fi

mkdir -p "$LOGS"
rm -f "$LOGS"/*.status
passed=0 failed=0 skipped=0

add() { # name of the suite, status; then what it counted
    name=$1 status=$2 p=${3-0} f=${4-0} s=${5-0}
    if [ $# -lt 5 ]; then
        echo "suite $name: no result (status $status)"
        f=1
    elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
        echo "suite $name: ended with status $status"
        f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

all= side=
for name; do
    if [ "$name" = -- ]; then
        side=yes
    elif [ "$side" ]; then
        all="$all $name" side="$side $name"
    else
        echo "== $name"
        { ${MAKE:-make} -s "test-$name" 2>&1; echo $? >"$LOGS/$name.status"; } | tee "$LOGS/$name.log"
        all="$all $name"
    fi
done
if [ "$side" ]; then
    printf '%s\n' ${side#yes} | xargs -P "$(nproc)" -n 1 sh "$0" --one
fi
for name in $all; do
    # Word splitting is wanted: three numbers or nothing.
    add "$name" "$(cat "$LOGS/$name.status" 2>/dev/null || echo none)" \
        $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$LOGS/$name.log" 2>/dev/null | tail -n 1)
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
