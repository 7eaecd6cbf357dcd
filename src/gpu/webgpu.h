/* The unmodified webgpu.h (pinned in deps/); under wasm every function it declares becomes an import of module "webgpu",
 * which web/src/webgpu.ts implements over navigator.gpu. Included by src/gpu/, the native host (cli/host.c, cli/adapter.c) and web/test/.
 */
#ifndef FR_GPU_WEBGPU_H
#define FR_GPU_WEBGPU_H

#include <math.h> /* first everything webgpu.h includes itself, so that the attribute touches only wgpu functions */
#include <stddef.h>
#include <stdint.h>
#ifdef __wasm__
#pragma clang attribute push(__attribute__((import_module("webgpu"))), apply_to = function)
#endif
#include <webgpu/webgpu.h>
#ifdef __wasm__
#pragma clang attribute pop
#endif

#endif
