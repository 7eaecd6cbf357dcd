#!/bin/sh
# fuzz.sh FOLDER SECONDS NAME...: runs each fuzzer of FOLDER for SECONDS. Inputs that reached new code are kept in FOLDER/corpus/NAME and
# are where the next run begins; test/seeds/NAME, if there is one, is read too. A finding stays in FOLDER as NAME-crash-*.
set -u
folder=$1 seconds=$2
shift 2
passed=0 failed=0
for name; do
    mkdir -p "$folder/corpus/$name"
    set -- "$folder/corpus/$name"
    [ ! -d "test/seeds/$name" ] || set -- "$@" "test/seeds/$name"
    if "$folder/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$folder/$name-" \
        "$@" >"$folder/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$name.log") inputs in $seconds s without a finding"
    else
        failed=$((failed + 1))
        tail -n 60 "$folder/$name.log"
        echo "FAILED  $name: see $folder/$name.log and $folder/$name-*"
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
