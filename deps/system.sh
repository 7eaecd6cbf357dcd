#!/bin/sh
# system.sh GROUP...: installs the Debian packages of deps/debian that these groups need and this machine lacks. Prints nothing if there
# are none. FORERUN_NO_INSTALL=1 only says what is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

present() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

[ "$(uname -sm)" = "Linux x86_64" ] || {
    echo "deps/system.sh: this is $(uname -sm); the pinned Dawn library is for Linux x86_64 only" >&2
    exit 1
}
missing=
while read -r group package proof; do
    case " $* " in
    *" $group "*) present "$proof" || missing="$missing $package" ;;
    esac
done <<END
$(grep -v -e '^#' -e '^$' "$here/debian")
END
[ -n "$missing" ] || exit 0

if [ -n "${FORERUN_NO_INSTALL-}" ] || ! command -v apt-get >/dev/null; then
    echo "deps/system.sh: missing, and not installed here:$missing (names of Debian 12; install these or their like)" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        echo "deps/system.sh: missing:$missing. Install them as root: apt-get install$missing" >&2
        exit 1
    }
    as_root="sudo"
fi
echo "installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The list may be old or absent on a fresh machine; dpkg's lock may be held by another installer for a while.
if ! { $as_root apt-get -o DPkg::Lock::Timeout=300 update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get \
    -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "deps/system.sh: apt-get could not install$missing (its last words are above)" >&2
    exit 1
fi
