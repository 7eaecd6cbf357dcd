// What the package makes of OpenAI-shaped requests, and what it refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./helpers.mjs";

const { chatCall, completionCall, checkDefaults, tokenIds } = await source("requests");
const { withPage } = await source("page");
const defaults = { mode: "loop", window: 0, width: 0, budget: 0, memory: "session" };
const plain = { width: 0, budget: 0, conversation: "", scope: "ALL" };
const user = content => [{ role: "user", content }];
const refuses = (request, pattern, call = chatCall) => assert.throws(() => call(request, defaults), e => {
  assert.equal(e.name, "ArgumentError");
  assert.equal(e.code, "argument");
  assert.match(e.message, pattern);
  return true;
});

test("requests: defaults", () => {
  const { prompt, request } = chatCall({ messages: user("hi") }, { mode: "greedy", window: 3, width: 0, budget: 0, memory: "session" });
  assert.deepEqual(prompt, { kind: "chat", messages: user("hi") });
  assert.deepEqual(request, { ...plain, mode: "GREEDY", maxTokens: 0, window: 3, stop: [], ignoreEos: false });
});

test("requests: options pass through", () => {
  const { request } = chatCall({ messages: user("hi"), max_tokens: 5, stop: "x", mode: "loop", window: 8, ignore_eos: true, temperature: 0, model: "any" }, defaults);
  assert.deepEqual(request, { ...plain, mode: "LOOP", maxTokens: 5, window: 8, stop: ["x"], ignoreEos: true });
  assert.equal(chatCall({ messages: user("hi"), max_completion_tokens: 7, max_tokens: null, stop: null }, defaults).request.maxTokens, 7);
});

test("requests: values that ask for nothing are let through", () => {
  chatCall({ messages: user("hi"), top_p: 1, n: 1, frequency_penalty: 0, presence_penalty: 0, logprobs: false, tools: undefined, seed: null }, defaults);
});

test("requests: what is not supported is refused by name", () => {
  refuses({ messages: user("hi"), temperature: 0.7 }, /temperature.*0\.7/);
  refuses({ messages: user("hi"), top_p: 0.9 }, /top_p.*0\.9/);
  refuses({ messages: user("hi"), tools: [] }, /tools/);
  refuses({ messages: user("hi"), response_format: { type: "json_object" } }, /response_format/);
  refuses({ messages: user("hi"), seed: 4 }, /seed/);
  refuses({ messages: user("hi"), maxTokens: 4 }, /maxTokens/);
  refuses({ messages: user("hi"), mode: "fast" }, /mode.*fast.*"adaptive"/);
  for (const budget of [-1, 1001, "8", NaN]) refuses({ messages: user("hi"), budget }, /"budget" must be 0 to 1000 milliseconds/);
  for (const workgroups of [-1, 1.5, 1025, "8"]) refuses({ messages: user("hi"), workgroups }, /"workgroups" must be a whole number from 0 to 1024/);
  assert.equal(chatCall({ messages: user("hi"), workgroups: 0 }, defaults).request.workgroups, 0);
  refuses({ messages: [{ role: "user", content: "x", tool_calls: [] }] }, /tool_calls/);
});

test("requests: malformed ones are refused with the place", () => {
  refuses({ messages: [] }, /messages/);
  refuses({ messages: "hi" }, /messages/);
  refuses({ messages: [{ role: "tool", content: "x" }] }, /messages.*0.*tool/);
  refuses({ messages: [{ role: "user", content: 5 }] }, /messages.*0.*number/);
  refuses({ messages: [{ role: "user", content: null }] }, /messages.*0.*null/);
  refuses({ messages: user("a\0b") }, /NUL/);
  refuses({ messages: [{ role: "user", content: [{ type: "image_url" }] }] }, /image_url/);
  refuses({ messages: user("hi"), max_tokens: 0 }, /max_tokens/);
  refuses({ messages: user("hi"), max_tokens: 1.5 }, /max_tokens/);
  refuses({ messages: user("hi"), max_tokens: "9" }, /max_tokens/);
  refuses({ messages: user("hi"), window: 17 }, /window/);
  refuses({ messages: user("hi"), stop: Array(17).fill("x") }, /17/);
  refuses({ messages: user("hi"), stop: [1] }, /stop/);
  refuses({ prompt: "" }, /prompt/, completionCall);
  refuses({ prompt: [] }, /prompt/, completionCall);
  refuses({ prompt: [1, -2] }, /-2/, completionCall);
  refuses({ prompt: "x", page: "y" }, /page/, completionCall);
  assert.throws(() => checkDefaults({ mode: "fast" }), /mode/);
  assert.throws(() => checkDefaults({ window: 99 }), /window/);
  assert.throws(() => checkDefaults({ width: 5 }), /width/);
  assert.throws(() => checkDefaults({ budget: 2000 }), /budget/);
  assert.throws(() => checkDefaults({ memory: "persistent" }), /persistent/);
  assert.throws(() => tokenIds("it", [NaN]), /it holds/);
});

test("requests: trees and memory", () => {
  const { request } = chatCall({ messages: user("hi"), mode: "tree", width: 16, conversation: "tea", scope: "conversation" }, defaults);
  assert.deepEqual([request.mode, request.width, request.conversation, request.scope], ["TREE", 16, "tea", "CONVERSATION"]);
  const scopeOf = (request, memory) => chatCall({ messages: user("hi"), ...request }, { ...defaults, memory }).request.scope;
  assert.equal(scopeOf({}, "session"), "ALL");
  assert.equal(scopeOf({ memory: "off", scope: "conversation" }, "session"), "NONE");
  assert.equal(scopeOf({}, "off"), "NONE");
  assert.equal(scopeOf({ memory: "session" }, "off"), "ALL");
  assert.equal(chatCall({ messages: user("hi"), mode: "tree" }, { ...defaults, width: 4 }).request.width, 4);
  assert.deepEqual(checkDefaults({ mode: "tree", width: 32, memory: "off" }), { mode: "tree", window: 0, width: 32, budget: 0, memory: "off" });
  assert.deepEqual(checkDefaults({}), { ...defaults, mode: "adaptive" });
  for (const width of [1, 3, 12, 64, "8", 2.5]) refuses({ messages: user("hi"), mode: "tree", width }, /"width" must be/);
  refuses({ messages: user("hi"), memory: "persistent" }, /persistent.*not supported yet.*save\(\)/);
  refuses({ messages: user("hi"), memory: true }, /memory.*true/);
  refuses({ messages: user("hi"), scope: "page" }, /scope.*page/);
  refuses({ messages: user("hi"), conversation: "" }, /conversation.*empty/);
  refuses({ messages: user("hi"), conversation: 4 }, /conversation/);
  refuses({ messages: user("hi"), conversation: "a\0b" }, /NUL/);
});

test("requests: content in parts", () => {
  const parts = [{ type: "text", text: "a" }, { type: "text", text: "b" }];
  assert.deepEqual(chatCall({ messages: [{ role: "user", content: parts }] }, defaults).prompt.messages, user("ab"));
});

test("requests: prompts as text or ids", () => {
  assert.deepEqual(completionCall({ prompt: "once" }, defaults).prompt, { kind: "text", text: "once" });
  assert.deepEqual([...completionCall({ prompt: [3, 4] }, defaults).prompt.ids], [3, 4]);
});

test("requests: a page goes in front of the last user message", () => {
  const messages = [{ role: "system", content: "s" }, { role: "user", content: "1" }, { role: "assistant", content: "2" }, { role: "user", content: "3" }];
  assert.deepEqual(withPage(messages, " page \n").map(m => m.content), ["s", "1", "2", "page\n\n3"]);
  assert.deepEqual(withPage(messages, ["p", "", "q"]).at(-1).content, "p\n\nq\n\n3");
  assert.deepEqual(withPage(messages, "  "), messages);
  assert.deepEqual(withPage([{ role: "system", content: "s" }], "p"), [{ role: "system", content: "s" }, { role: "user", content: "p" }]);
  assert.equal(messages[3].content, "3", "the caller's messages stay as they were");
  assert.equal(chatCall({ messages, page: "p" }, defaults).prompt.messages[3].content, "p\n\n3");
});
