// The self-test's page in a browser: kernels against their twins, and steps over many nodes against decoding, bit for bit, over the browser's
// own WebGPU. On a software adapter the cases that have it all: trees of every bucket, over matrices of every stored type.

import assert from "node:assert/strict";
import { test } from "node:test";
import { launch } from "../tools/browser.mjs";
import { startServer } from "../tools/server.mjs";
import { dist } from "./helpers.mjs";

/** The objects that the page posts. */
async function run(query) {
  const posted = [];
  let finish;
  const done = new Promise(resolve => { finish = resolve; });
  const server = await startServer({ root: dist, onLog: text => posted.push(JSON.parse(text)), onDone: finish });
  const { browser } = await launch({ url: `${server.url}article.txt`, cpu: true });
  try {
    const page = await browser.newPage();
    const crash = new Promise((_, reject) => page.on("crash", () => reject(new Error("the page crashed"))));
    await page.goto(`${server.url}selftest.html${query}`);
    await Promise.race([done, crash]);
    return posted;
  } finally {
    await browser.close();
    await server.close();
  }
}

test("selftest: kernels give their twins' bits, and trees of every bucket those of decoding", async () => {
  const posted = await run("?only=tree.cpu");
  const [tree, summary] = posted;
  assert.equal(posted.length, 2, JSON.stringify(posted));
  assert.deepEqual([tree.case, tree.ok], ["tree.cpu", true], tree.text);
  const [, dispatches, nodes] = /^(\d+) dispatches, (\d+) nodes$/.exec(tree.text).map(Number);
  assert.ok(dispatches > 200 && nodes > 400, tree.text);
  assert.deepEqual([summary.failures, summary.errors], [0, []]);
  assert.match(summary.adapter, /swiftshader/i);
  console.log(`${tree.text}, ${summary.seconds} s`);
});

test("selftest: a name that no case has is an error", async () => {
  assert.deepEqual(await run("?only=nothing"), [{ error: 'no case begins with "nothing"' }]);
});
