// What the README prints works as printed: its commands for C, those for the page, which is then opened in Chromium, its verbs.
// (tools/check.mjs sees to it that the README prints the files of examples/.)

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch } from "../web/tools/browser.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const build = process.env.FORERUN_BUILD ?? join(root, "build");
const readme = readFileSync(join(root, "README.md"), "utf8");
const check = (truth, message) => { if (!truth) throw new Error(message); };

const blocks = [...readme.matchAll(/```sh\n(.*?)```/gs)].map(m => m[1]);
const block_with = word => blocks.find(block => block.includes(word)) ?? check(false, `the README prints no commands with ${word}`);

/** Runs printed commands at the root of the tree. */
function shell(commands) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^MAKE|^MFLAGS$/.test(name))); // as in a shell of its own
  const r = spawnSync("bash", ["-ec", commands], { cwd: root, env, encoding: "utf8", timeout: 600_000 });
  check(r.status === 0, `the commands ended with ${r.status ?? "no end after 600 s"}: ${r.stderr}`);
  return r;
}

function c_example() {
  const r = shell(block_with("examples/answer.c"));
  check(/[a-z]{3,}[^]*\n\[.+: [\d.]+ ms a token\]\n$/.test(r.stdout), `printed no answer: ${r.stdout}`);
}

function verbs() {
  const named = [...readme.matchAll(/^ {4}forerun (\w+) /gm)].map(m => m[1]);
  check(named.length >= 5, `found only ${named}`);
  for (const verb of named) {
    const r = spawnSync(join(build, "forerun"), [verb, "--help"], { encoding: "utf8" });
    check(r.status === 0 && r.stdout.includes(`forerun ${verb}`), `forerun ${verb} --help: status ${r.status}, ${r.stdout}${r.stderr}`);
  }
}

async function browser_example() {
  const [serve] = /^python3 -m http\.server.*$/m.exec(block_with("examples/page.html"));
  const folder = join(root, "build/page");
  rmSync(folder, { recursive: true, force: true });
  shell(block_with("examples/page.html").replace(serve, ""));
  const server = spawn("bash", ["-c", `exec ${serve.replace(/ 8000\b/, " 0").replace("python3", "python3 -u")}`], { cwd: root, stdio: ["ignore", "pipe", "ignore"] });
  let browser;
  try {
    const url = /http:\/\/127\.0\.0\.1:\d+\//.exec(await once(server.stdout.setEncoding("utf8"), "data"))[0];
    ({ browser } = await launch({ url, cpu: true }));
    const page = await browser.newPage();
    const errors = [];
    page.on("pageerror", e => errors.push(e.message));
    await page.goto(url);
    await page.waitForFunction(() => answer.textContent.startsWith("ready"), null, { timeout: 300_000 });
    await page.click("#ask");
    await page.waitForFunction(() => document.title === "done", null, { timeout: 600_000 });
    const text = await page.textContent("#answer");
    check(!errors.length, errors.join("; "));
    check(/lighthouse/i.test(text), `the answer is not about the page: ${text}`);
  } finally {
    await browser?.close();
    server.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

const tests = {
  "readme.c: the example for C builds and answers with the printed commands": c_example,
  "readme.verbs: the verbs that are listed exist": verbs,
  "readme.page: the example for the browser answers in Chromium": browser_example,
};
let failed = 0;
for (const [name, run] of Object.entries(tests)) {
  let word = "ok     ";
  try {
    await run();
  } catch (e) {
    word = "FAILED ";
    failed++;
    console.log(e.message);
  }
  console.log(`${word} ${name}`);
}
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
