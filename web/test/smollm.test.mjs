// The default model in Chromium: the tokens of the native program.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before, test } from "node:test";
import { launch } from "../tools/browser.mjs";
import { startServer } from "../tools/server.mjs";
import { dist } from "./helpers.mjs";
import { native } from "./site.mjs";

const model = process.env.FORERUN_MODEL;
const question = "What is the capital of France?";
const N = 8;
let server, browser;

before(async () => {
  if (!model || !existsSync(model)) throw new Error("FORERUN_MODEL must name the default model: run `make test-web`");
  server = await startServer({ root: dist, model });
  ({ browser } = await launch({ url: `${server.url}article.txt`, cpu: true }));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test("smollm: Chromium's tokens are the native program's", async () => {
  const page = await browser.newPage();
  await page.goto(`${server.url}article.txt`);
  const answer = await page.evaluate(async ({ question, N }) => {
    const { Forerun } = await import("/index.js");
    const engine = await Forerun.load("/model.gguf", { cache: false });
    const answer = await engine.chat.completions.create({ messages: [{ role: "user", content: question }], max_tokens: N });
    await engine.dispose();
    return answer;
  }, { question, N });
  const same = native(model, ["-p", question, "-n", String(N)]);
  assert.deepEqual(answer.token_ids, same.tokens);
  assert.equal(answer.choices[0].message.content, same.text);
  assert.equal(answer.usage.prompt_tokens, same.usage.prompt_tokens);
});
