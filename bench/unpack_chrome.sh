#!/bin/sh
# unpack_chrome.sh PARTS FOLDER: unpacks what pack_chrome.sh made and writes FOLDER/env.sh, which sets CHROME, the command that gives WebGPU this
# machine's NVIDIA GPU (or, without a driver of it, SwiftShader):
#
#     . FOLDER/env.sh; python3 bench/serve_page.py --file model.gguf=MODEL web/dist bench.html $CHROME
set -eu
[ $# -eq 2 ] || { echo "usage: unpack_chrome.sh PARTS FOLDER" >&2; exit 2; }
parts=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
cat "$parts"/chrome.[0-9][0-9] | xz -dc -T0 | tar -C "$folder" -xf -

driver=
for path in "${VK_DRIVER_FILES:-}" /usr/share/vulkan/icd.d/nvidia_icd.json /etc/vulkan/icd.d/nvidia_icd.json /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json; do
    [ -n "$driver" ] || [ ! -f "$path" ] || driver=$path
done

{
    echo "export LD_LIBRARY_PATH=\"$folder/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\" XDG_RUNTIME_DIR=/tmp"
    if [ -n "$driver" ]; then
        # Chromium brings a Vulkan loader of its own, which need not know this driver; the system's does.
        loader=$(ldconfig -p | sed -n 's/^.*libvulkan\.so\.1 .* => \(.*\)$/\1/p' | head -n 1)
        [ -z "$loader" ] || cp -L "$loader" "$folder/chromium/libvulkan.so.1"
        echo "export VK_DRIVER_FILES=$driver"
        echo "CHROME='$folder/chromium/chromium --enable-features=Vulkan --use-vulkan=native --use-angle=vulkan --disable-vulkan-surface --disable-gpu-sandbox'"
    else
        echo "unpack_chrome.sh: no NVIDIA driver for Vulkan found; SwiftShader will compute on the CPU" >&2
        echo "CHROME='$folder/chromium/chromium --use-webgpu-adapter=swiftshader'"
    fi
} >"$folder/env.sh"
echo "$folder/env.sh"
