#!/bin/sh
# pack_chrome.sh FOLDER [BYTES]: packs this machine's Debian Chromium, with the shared libraries it needs, into FOLDER/chrome.00, .01, ... of
# at most BYTES each (40 MB), to be carried to a machine that has a GPU but no browser. unpack_chrome.sh is the other half.
set -eu
[ $# -ge 1 ] || { echo "usage: pack_chrome.sh FOLDER [BYTES]" >&2; exit 2; }
folder=$1
bytes=${2:-40000000}
home=/usr/lib/chromium
[ -x "$home/chromium" ] || { echo "pack_chrome.sh: $home/chromium is missing; install Debian's package chromium" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lib" "$folder"
cp -a "$home" "$work/chromium"
# What a benchmark has no use for.
find "$work/chromium/locales" -type f ! -name 'en-US.pak' -delete
rm -f "$work"/chromium/libVkLayer_* "$work"/chromium/libVkICD_mock_*

# The C library and the compiler's own stay those of the other machine: theirs must match its kernel and drivers.
ldd "$work/chromium/chromium" | sed -n 's/^.* => \(\/[^ ]*\) .*$/\1/p' | while read -r library; do
    case $(basename "$library") in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libresolv.so.* | ld-linux* | libgcc_s.so.* | libstdc++.so.*) ;;
    *) cp -L "$library" "$work/lib/" ;;
    esac
done
# NSS opens these by name at run time.
for name in libsoftokn3.so libfreebl3.so libfreeblpriv3.so libnssckbi.so; do
    path=$(find /usr/lib -name "$name" -print -quit)
    [ -z "$path" ] || cp -L "$path" "$work/lib/"
done

rm -f "$folder"/chrome.[0-9][0-9]
tar -C "$work" -cf - chromium lib | xz -T0 -6 | split -d -a 2 -b "$bytes" - "$folder/chrome."
du -ch "$folder"/chrome.[0-9][0-9]
