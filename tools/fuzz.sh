#!/bin/sh
# fuzz.sh FOLDER SECONDS NAME...: runs the fuzzers of FOLDER for SECONDS, side by side. Inputs that reached new code are kept in
# FOLDER/corpus/NAME and are where the next run begins. A finding stays in FOLDER as NAME-crash-* (or -leak-, -timeout-, -oom-).
set -u
folder=$1 seconds=$2
shift 2
passed=0 failed=0

fuzz() {
    mkdir -p "$folder/corpus/$1"
    "$folder/$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$folder/$1-" \
        "$folder/corpus/$1" >"$folder/$1.log" 2>&1
    echo $? >"$folder/$1.status"
}

for name; do
    rm -f "$folder/$name.status"
    fuzz "$name" &
done
wait
for name; do
    if [ "$(cat "$folder/$name.status" 2>&1)" = 0 ]; then
        passed=$((passed + 1))
        echo "ok      $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$name.log") inputs in $seconds s without a finding"
    else
        failed=$((failed + 1))
        tail -n 60 "$folder/$name.log"
        echo "FAILED  $name: see $folder/$name.log and $folder/$name-*"
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
