#!/bin/sh
# unpack.sh PARTS FOLDER [OPTION]...: checks and unpacks what pack.sh made, each pack once, and runs suite.py in FOLDER with these options:
#
#     sh unpack.sh PARTS FOLDER --out /tmp/results --seconds 500
#
# Without options it only unpacks. Packs that are not there at all are left out; then the legs that need them fail, and say so.
set -eu
[ $# -ge 2 ] || { echo "usage: unpack.sh PARTS FOLDER [OPTION]..." >&2; exit 2; }
parts=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2

for name in chrome suite model peers; do
    [ ! -e "$folder/$name.done" ] && [ -e "$parts/$name.00" ] || continue
    (cd "$parts" && grep "/$name\." parts.sha256 | sha256sum --check --quiet)
    case $name in
    chrome) sh "${0%/*}/unpack_chrome.sh" "$parts" "$folder/chrome" ;;
    model) cat "$parts"/model.[0-9][0-9] | tar -C "$folder" -xf - ;;
    *) cat "$parts/$name".[0-9][0-9] | xz -dc -T0 | tar -C "$folder" -xf - ;;
    esac
    touch "$folder/$name.done"
done
[ $# -gt 0 ] || exit 0

# Chrome gets its libraries through a script of its own: other programs here need those of the machine.
if [ -f "$folder/chrome/env.sh" ]; then
    libraries=${LD_LIBRARY_PATH-}
    . "$folder/chrome/env.sh"
    printf '#!/bin/sh\nexport LD_LIBRARY_PATH="%s"\nexec "%s" "$@"\n' "$LD_LIBRARY_PATH" "${CHROME%% *}" >"$folder/chrome/chrome.sh"
    chmod +x "$folder/chrome/chrome.sh"
    export CHROME="$folder/chrome/chrome.sh ${CHROME#* }" LD_LIBRARY_PATH="$libraries"
fi
set -- --model "$folder/model.gguf" "$@"
[ ! -e "$folder/workload/squad.jsonl" ] || set -- --workload "$folder/workload" "$@"
exec python3 "$folder/bench/suite.py" "$@"
