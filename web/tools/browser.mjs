// Finding and starting a Chromium for the demo, the benchmark and the tests: with the machine's GPU where WebGPU gets one, else with
// SwiftShader, which computes on the CPU.

import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge"];
const ELSEWHERE = ["/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium"];
const COMMON = ["--enable-unsafe-webgpu", "--disable-quic", "--disable-dev-shm-usage"]; // the first: WebGPU on Linux, and exact timestamps
const GPU = [
  "--ignore-gpu-blocklist",
  ...(process.platform === "linux" ? ["--enable-features=Vulkan", "--use-angle=vulkan", "--use-vulkan=native", "--disable-vulkan-surface", "--disable-gpu-sandbox"] : []),
];
const CPU = [
  "--use-webgpu-adapter=swiftshader",
  "--disable-gpu-watchdog", // which would take a slow dispatch for a hung GPU
  "--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension", // as cli/host.c: kernels compile in half the time
];

export function findChromium() {
  if (process.env.CHROME) {
    if (!existsSync(process.env.CHROME)) throw new Error(`CHROME is ${process.env.CHROME}, where there is no file`);
    return process.env.CHROME;
  }
  const paths = (process.env.PATH ?? "").split(delimiter).flatMap(dir => NAMES.map(name => join(dir, name)));
  const found = [...paths, ...ELSEWHERE].find(path => existsSync(path));
  if (!found) throw new Error("no Chromium or Chrome found: install one, or set CHROME to its program");
  return found;
}

/** A hint, to spare a start that can't succeed: Linux without a GPU's device file has no GPU. */
function mayHaveGpu() {
  if (process.platform !== "linux") return true;
  const entries = dir => (existsSync(dir) ? readdirSync(dir) : []);
  return entries("/dev/dri").some(name => name.startsWith("renderD")) || entries("/dev").some(name => /^nvidia\d+$/.test(name));
}

const start = (executablePath, flags) => chromium.launch({ executablePath, args: [...COMMON, ...flags], chromiumSandbox: process.getuid?.() !== 0 });

/** Whether WebGPU offers something other than a software adapter. `url` must be a secure page (http://127.0.0.1 is). */
async function offersGpu(browser, url) {
  const page = await browser.newPage();
  try {
    await page.goto(url);
    return await page.evaluate(async () => {
      for (let i = 0; i < 6; i++) {
        const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
        if (adapter) return !adapter.info.isFallbackAdapter && !/swiftshader|llvmpipe/i.test(adapter.info.architecture + adapter.info.description);
        await new Promise(resolve => setTimeout(resolve, 500));
      }
      return false;
    });
  } finally {
    await page.close();
  }
}

/** {browser, gpu}: `gpu` false means SwiftShader. `cpu` asks for that. */
export async function launch({ url, cpu = false }) {
  const path = findChromium();
  if (!cpu && mayHaveGpu()) {
    const browser = await start(path, GPU).catch(() => null); // some drivers take the GPU process down with them
    if (browser && await offersGpu(browser, url).catch(() => false)) return { browser, gpu: true };
    await browser?.close();
  }
  return { browser: await start(path, CPU), gpu: false };
}
