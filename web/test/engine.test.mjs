// The package in Chromium, on a tiny random model: loading, modes, streaming, ends, aborts, errors, the cache. Most tests share one engine,
// since compiling its kernels for a software adapter takes seconds.

import assert from "node:assert/strict";
import { readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { native, openSite } from "./site.mjs";

let site, page;
before(async () => {
  site = await openSite();
  page = site.page;
  await page.evaluate(() => {
    // A failed promise as an object that can leave the page.
    globalThis.outcome = promise => promise.then(value => ({ value }), e => ({ name: e.name, code: e.code, message: e.message, status: e.status, typed: e instanceof ForerunError }));
    globalThis.tokensOf = async request => (await engine.completions.create({ ignore_eos: true, ...request, stream: false })).token_ids;
  });
});
after(() => site?.close());

const prompts = [[72, 101, 108, 108, 111], [260, 5, 17, 250, 33, 8, 99, 2], [1]];
const N = 40;

test("engine: support is told without loading", async () => {
  const support = await page.evaluate(() => Forerun.checkSupport());
  assert.equal(support.supported, true);
  assert.equal(support.adapter.isCpu, true);
  assert.ok(support.limits.maxBufferSize >= 2 ** 28);
});

test("engine: loads from a URL, with progress by phases", async () => {
  const { phases, ratios, totals, info } = await page.evaluate(async () => {
    const seen = [];
    globalThis.engine = await Forerun.load("/cached.gguf", { onProgress: p => seen.push(p) });
    return { phases: [...new Set(seen.map(p => p.phase))], ratios: seen.map(p => p.ratio), totals: seen.filter(p => p.phase === "ready"), info: await engine.info() };
  });
  assert.deepEqual(phases, ["start", "download", "compile", "ready"]);
  assert.deepEqual(ratios, ratios.toSorted((a, b) => a - b));
  assert.equal(ratios.at(-1), 1);
  const size = statSync(site.model).size;
  assert.deepEqual(totals.map(p => [p.loaded, p.total]), [[size, size]]);
  assert.equal(info.architecture, "llama");
  assert.equal(info.layers, 2);
  assert.equal(info.context, 512);
  assert.equal(info.cached, false);
  assert.ok(info.device_bytes > size / 2);
});

test("engine: loop gives the tokens of greedy for W = 1, 2, 4, 8, and the native program's", async () => {
  for (const prompt of prompts) {
    const runs = await page.evaluate(async ({ prompt, max_tokens }) => {
      const greedy = await tokensOf({ prompt, max_tokens, mode: "greedy" });
      const loops = [];
      for (const window of [1, 2, 4, 8]) loops.push(await tokensOf({ prompt, max_tokens, mode: "loop", window }));
      return { greedy, loops };
    }, { prompt, max_tokens: N });
    assert.equal(runs.greedy.length, N);
    for (const loop of runs.loops) assert.deepEqual(loop, runs.greedy);
  }
  const text = "The tide turns";
  const answer = await page.evaluate(prompt => engine.completions.create({ prompt, max_tokens: 30 }), text);
  const same = native(site.model, ["--raw", "-p", text, "-n", "30"]);
  assert.deepEqual(answer.token_ids, same.tokens);
  assert.equal(answer.choices[0].text, same.text);
  assert.equal(answer.choices[0].finish_reason, same.finish_reason);
  assert.equal(answer.usage.prompt_tokens, same.usage.prompt_tokens);
});

test("engine: tree gives the tokens of greedy for widths 2 and 8, W = 1 and 4, whatever is remembered", async () => {
  const { greedy, trees, alone, again, other, stats, refused } = await page.evaluate(async ({ prompt, max_tokens }) => {
    const ask = (request = {}) => engine.completions.create({ prompt, max_tokens, ignore_eos: true, mode: "tree", ...request });
    const greedy = await tokensOf({ prompt, max_tokens, mode: "greedy", memory: "off" });
    await engine.memory.clear();
    const trees = [];
    for (const width of [2, 8]) {
      await engine.prepare({ mode: "tree", width });
      for (const window of [1, 4]) trees.push(await ask({ width, window, memory: "off" }));
    }
    const alone = await ask({ conversation: "one" });
    const again = await ask({ conversation: "two" });
    const other = await ask({ conversation: "three", scope: "conversation" });
    const bytes = await engine.memory.save();
    await engine.memory.clear("two");
    await engine.memory.clear();
    const stats = [await engine.stats()];
    await engine.memory.load(bytes);
    stats.push(await engine.stats());
    const refused = [await outcome(engine.memory.load(bytes.subarray(1))), await outcome(engine.memory.load("x"))];
    return { greedy, trees, alone, again, other, stats, refused };
  }, { prompt: prompts[1], max_tokens: N });
  assert.deepEqual([...trees, alone, again, other].map(answer => answer.token_ids), Array(7).fill(greedy));
  assert.deepEqual(trees.map(({ timing: t }) => [t.mode, t.width, t.window]), [["tree", 2, 1], ["tree", 2, 4], ["tree", 8, 1], ["tree", 8, 4]]);
  const accepted = ({ usage }) => usage.completion_tokens_details.accepted_prediction_tokens;
  for (const { usage, timing } of [...trees, alone, again, other]) {
    const { accepted_prediction_tokens: yes, rejected_prediction_tokens: no } = usage.completion_tokens_details;
    assert.ok(yes >= 0 && no >= 0);
    assert.equal(timing.tau, N / timing.steps);
    assert.ok(timing.steps + yes >= N, "a step yields the token it would without drafts, and those accepted");
  }
  assert.ok(accepted(again) > accepted(alone), `${accepted(again)} drafts accepted with the answer in memory, ${accepted(alone)} without`);
  assert.equal(accepted(other), accepted(alone), "a conversation of its own does not see it");
  assert.deepEqual(stats.map(s => s.memory_tokens), [0, 3 * (N + 8)]);
  assert.deepEqual(refused.map(r => [r.name, r.typed]), Array(2).fill(["ArgumentError", true]));
});

test("engine: adaptive gives the tokens of greedy, whatever it chooses, also under a frame budget; what it learns is kept", async () => {
  const { greedy, answers, first, second, damaged, folder } = await page.evaluate(async ({ prompt, max_tokens }) => {
    const greedy = await tokensOf({ prompt, max_tokens, mode: "greedy", memory: "off" });
    const answers = [];
    for (const width of [2, 8]) await engine.prepare({ mode: "tree", width });
    for (const request of [{}, { memory: "off" }, { window: 8 }, { width: 2 }, { budget: 1 }, { budget: 1, mode: "loop" }, { budget: 1, mode: "tree" }, { budget: 500 }])
      answers.push(await engine.completions.create({ prompt, max_tokens, ignore_eos: true, mode: "adaptive", ...request }));
    const visit = async () => {
      const visitor = await Forerun.load("/model.gguf");
      const before = (await visitor.stats()).costs;
      await visitor.completions.create({ prompt, max_tokens, ignore_eos: true });
      const after = (await visitor.stats()).costs;
      await new Promise(resolve => setTimeout(resolve, 300)); // it is written in the background
      await visitor.dispose();
      return { before, after };
    };
    await new Promise(resolve => setTimeout(resolve, 2000)); // what the first engine keeps is written, too: it has the same model
    const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle("forerun-models", { create: true }), folder = [];
    for (const name of await Array.fromAsync(dir.keys())) if (name.endsWith(".costs")) await dir.removeEntry(name);
    const first = await visit(), second = await visit();
    for await (const name of dir.keys()) folder.push(name);
    const file = await (await dir.getFileHandle(folder.find(name => name.endsWith(".costs")))).createWritable({ keepExistingData: true });
    await file.write({ type: "write", position: 40, data: new Uint8Array([1, 2, 3]) });
    await file.close();
    const damaged = await visit();
    await Forerun.clearCache("/model.gguf");
    return { greedy, answers, first, second, damaged, folder };
  }, { prompt: prompts[1], max_tokens: N });
  for (const { token_ids } of answers) assert.deepEqual(token_ids, greedy);
  for (const { timing: t } of answers) assert.equal(Object.values(t.widths).reduce((a, b) => a + b), t.steps);
  assert.ok(answers[3].timing.width <= 2);
  for (const { timing: t } of answers.slice(4, 7)) assert.ok(t.submits > t.steps, `${t.submits} command buffers for ${t.steps} steps`);
  assert.deepEqual([first.before, damaged.before], [{}, {}]);
  assert.ok(first.after[1] > 0 && damaged.after[1] > 0);
  assert.deepEqual(second.before, first.after);
  assert.equal(folder.filter(name => name.endsWith(".costs")).length, 1);
});

test("engine: a chat completion in OpenAI's shape", async () => {
  const { whole, chunks } = await page.evaluate(async () => {
    const request = { messages: [{ role: "system", content: "s" }, { role: "user", content: "u" }], page: "p", max_tokens: 12, ignore_eos: true, model: "tiny-model" };
    const whole = await engine.chat.completions.create(request);
    const chunks = [];
    for await (const chunk of await engine.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) chunks.push(chunk);
    return { whole, chunks };
  });
  assert.equal(whole.object, "chat.completion");
  assert.equal(whole.model, "tiny-model");
  assert.match(whole.id, /^chatcmpl-/);
  const { message, finish_reason } = whole.choices[0];
  assert.equal(message.role, "assistant");
  assert.equal(finish_reason, "length");
  assert.equal(whole.usage.completion_tokens, 12);
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + 12);
  assert.equal(whole.token_ids.length, 12);
  assert.ok(whole.timing.ms_per_token > 0 && whole.timing.dispatches_per_step > 0 && whole.timing.first_token_ms > 0);

  assert.ok(chunks.every(chunk => chunk.object === "chat.completion.chunk" && chunk.id === chunks[0].id));
  assert.deepEqual(chunks[0].choices[0].delta, { role: "assistant", content: "" });
  assert.equal(chunks.map(chunk => chunk.choices[0]?.delta.content ?? "").join(""), message.content);
  const [end, usage] = chunks.slice(-2);
  assert.equal(end.choices[0].finish_reason, "length");
  assert.deepEqual(end.token_ids, whole.token_ids);
  assert.deepEqual(usage.choices, []);
  assert.equal(usage.usage.completion_tokens, 12);
  assert.equal(usage.usage.prompt_tokens_details.cached_tokens, usage.usage.prompt_tokens - 1, "the same prompt again is taken from the cache but for its last token");
  assert.ok(chunks.slice(0, -2).every(chunk => chunk.choices[0].finish_reason === null));
});

test("engine: a cached prefix gives the tokens of a fresh one", async () => {
  const [fresh, cached] = await page.evaluate(async prompt => {
    await engine.reset();
    const fresh = await engine.completions.create({ prompt, max_tokens: 20, ignore_eos: true });
    await engine.completions.create({ prompt: [...prompt, 9, 9, 9], max_tokens: 5, ignore_eos: true });
    return [fresh, await engine.completions.create({ prompt, max_tokens: 20, ignore_eos: true })];
  }, prompts[1]);
  assert.equal(fresh.usage.prompt_tokens_details.cached_tokens, 0);
  assert.ok(cached.usage.prompt_tokens_details.cached_tokens > 0);
  assert.deepEqual(cached.token_ids, fresh.token_ids);
});

test("engine: a stop string ends the answer and is no part of it", async () => {
  const { plain, stopped, streamed } = await page.evaluate(async () => {
    const request = { prompt: "stop test", max_tokens: 40, ignore_eos: true };
    const plain = (await engine.completions.create(request)).choices[0].text;
    const stop = [...plain].slice(10, 13).join("");
    const stopped = await engine.completions.create({ ...request, stop: ["never there", stop] });
    let streamed = "";
    for await (const chunk of await engine.completions.create({ ...request, stop, stream: true })) streamed += chunk.choices[0].text;
    return { plain, stop, stopped, streamed };
  });
  const text = stopped.choices[0].text;
  assert.equal(stopped.choices[0].finish_reason, "stop");
  assert.ok(plain.startsWith(text) && text.length < plain.length);
  assert.equal(streamed, text);
});

test("engine: an end token ends the answer, and the next request is right", async () => {
  const found = await page.evaluate(async () => {
    for (let i = 0; i < 200; i++) {
      const prompt = [i % 256, (i * 7) % 256, 40 + (i % 50)];
      const ended = await engine.completions.create({ prompt, max_tokens: 24, window: 4 });
      if (ended.choices[0].finish_reason !== "stop") continue;
      return { ended, through: await tokensOf({ prompt, max_tokens: 24 }), again: await engine.completions.create({ prompt, max_tokens: 24, mode: "greedy" }) };
    }
    return null;
  });
  assert.ok(found, "one of the prompts leads to an end token");
  const { ended, through, again } = found;
  const n = ended.token_ids.length;
  assert.ok(n < 24);
  assert.equal(ended.usage.completion_tokens, n);
  assert.deepEqual(through.slice(0, n), ended.token_ids, "the same tokens as without the end");
  assert.deepEqual(again.token_ids, ended.token_ids);
  assert.equal(again.choices[0].finish_reason, "stop");
});

test("engine: max_tokens and a full context end it with \"length\"", async () => {
  const [one, full] = await page.evaluate(async () => {
    const prompt = Array.from({ length: 500 }, (_, i) => i % 250);
    return [await engine.completions.create({ prompt: [5, 6], max_tokens: 1, ignore_eos: true }), await engine.completions.create({ prompt, ignore_eos: true })];
  });
  assert.deepEqual([one.token_ids.length, one.choices[0].finish_reason], [1, "length"]);
  assert.equal(full.choices[0].finish_reason, "length");
  assert.ok(full.usage.total_tokens >= 511 && full.usage.total_tokens <= 513, `${full.usage.total_tokens} tokens in a context of 512`);
});

test("engine: leaving the loop frees the engine for the next request", async () => {
  const { reference, after } = await page.evaluate(async prompt => {
    const reference = await tokensOf({ prompt, max_tokens: 20 });
    for (let i = 0; i < 3; i++) {
      for await (const chunk of await engine.completions.create({ prompt: [7, 7, 7], max_tokens: 400, ignore_eos: true, stream: true })) if (chunk) break;
    }
    return { reference, after: await tokensOf({ prompt, max_tokens: 20 }) };
  }, prompts[0]);
  assert.deepEqual(after, reference);
});

test("engine: an AbortSignal ends a stream with finish_reason \"abort\"", async () => {
  const { reasons, tokens, text, reference, after } = await page.evaluate(async prompt => {
    const reference = await tokensOf({ prompt, max_tokens: 20 });
    const stop = new AbortController();
    const reasons = [];
    let text = "", tokens;
    for await (const chunk of await engine.completions.create({ prompt: [9, 8, 7], max_tokens: 400, ignore_eos: true, stream: true, signal: stop.signal })) {
      text += chunk.choices[0].text;
      if (text.length > 5) stop.abort();
      reasons.push(chunk.choices[0].finish_reason);
      tokens = chunk.token_ids;
    }
    return { reasons, tokens, text, reference, after: await tokensOf({ prompt, max_tokens: 20 }) };
  }, prompts[0]);
  assert.equal(reasons.at(-1), "abort");
  assert.ok(reasons.slice(0, -1).every(reason => reason === null));
  assert.ok(tokens.length > 0 && tokens.length < 400);
  assert.ok(text.length > 5);
  assert.deepEqual(after, reference);
});

test("engine: requests queue; one that is aborted while it waits rejects", async () => {
  const { order, answers, aborted } = await page.evaluate(async prompts => {
    const order = [];
    const stop = new AbortController();
    const ask = (name, request) => engine.completions.create({ ignore_eos: true, max_tokens: 15, ...request }).then(r => { order.push(name); return r.token_ids; });
    const first = ask("first", { prompt: prompts[0] }), second = outcome(ask("second", { prompt: prompts[1], signal: stop.signal })), third = ask("third", { prompt: prompts[0] });
    stop.abort();
    return { answers: [await first, await third], aborted: await second, order };
  }, prompts);
  assert.deepEqual(order, ["first", "third"]);
  assert.deepEqual(answers[0], answers[1]);
  assert.deepEqual([aborted.name, aborted.typed], ["AbortError", true]);
});

test("engine: what can't be done is refused, and the engine stays as it was", async () => {
  const results = await page.evaluate(async () => {
    const long = Array.from({ length: 600 }, () => 5);
    return {
      temperature: await outcome(engine.chat.completions.create({ messages: [{ role: "user", content: "x" }], temperature: 1 })),
      context: await outcome(engine.completions.create({ prompt: long })),
      vocabulary: await outcome(engine.completions.create({ prompt: [1, 99999] })),
      twice: await outcome((async () => {
        const stream = await engine.completions.create({ prompt: [1], max_tokens: 2, stream: true });
        for await (const _ of stream);
        for await (const _ of stream);
      })()),
      after: await outcome(engine.completions.create({ prompt: [1, 2], max_tokens: 2, ignore_eos: true })),
    };
  });
  assert.equal(results.temperature.name, "ArgumentError");
  assert.equal(results.context.name, "ContextError");
  assert.match(results.context.message, /600.*512/);
  assert.equal(results.vocabulary.name, "ArgumentError");
  assert.match(results.vocabulary.message, /99999/);
  assert.match(results.twice.message, /only once/);
  assert.equal(results.after.value.token_ids.length, 2);
});

test("engine: text to tokens and back", async () => {
  const texts = ["", "Hello, world", "Zwölf Boxkämpfer 🌊 jagen\n\tViktor", "日本語", "<|im_end|>"];
  const back = await page.evaluate(async texts => {
    const results = [];
    for (const text of texts) results.push(await engine.detokenize(await engine.tokenize(text)));
    return results;
  }, texts);
  assert.deepEqual(back, texts);
});

test("engine: a second one, from the cache, beside the first", async () => {
  const { info, phases, one, two, both } = await page.evaluate(async prompt => {
    const phases = [];
    const second = await Forerun.load("/cached.gguf", { onProgress: p => phases.push(p.phase) });
    const request = { prompt, max_tokens: 20, ignore_eos: true };
    const [one, two] = await Promise.all([engine.completions.create(request), second.completions.create(request)]);
    const info = await second.info();
    const cut = second.completions.create({ ...request, max_tokens: 400 });
    const disposed = outcome(cut);
    await second.dispose();
    await second.dispose();
    const both = [await disposed, await outcome(second.info()), await outcome(second.completions.create(request))];
    return { info, phases: [...new Set(phases)], one: one.token_ids, two: two.token_ids, both };
  }, prompts[1]);
  assert.equal(info.cached, true);
  assert.deepEqual(phases, ["start", "read", "compile", "ready"]);
  assert.deepEqual(two, one);
  for (const result of both) assert.equal(result.name, "DisposedError", JSON.stringify(result));
});

/** Loads until the kernels compile, which no test here needs, and aborts there. Answers the phases seen and how it ended. */
const loadUntilCompile = options => page.evaluate(async ({ source, cache }) => {
  const stop = new AbortController(), phases = [];
  const end = await outcome(Forerun.load(source, { cache, signal: stop.signal, onProgress: p => {
    phases.push(p.phase);
    if (p.phase === "compile") stop.abort();
  } }));
  return { phases: [...new Set(phases)], end };
}, options);

test("engine: abort ends a load", async () => {
  const { phases, end } = await loadUntilCompile({ source: "/model.gguf", cache: false });
  assert.deepEqual(phases, ["start", "download", "compile"]);
  assert.deepEqual([end.name, end.typed], ["AbortError", true]);
});

test("engine: a damaged or outdated cache entry is downloaded again", async () => {
  const entry = change => page.evaluate(async change => {
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("forerun-models");
    const names = [];
    for await (const name of folder.keys()) names.push(name);
    if (change) {
      const file = await folder.getFileHandle(names.find(name => name.endsWith(".gguf")));
      const writable = await file.createWritable({ keepExistingData: true });
      await writable.write({ type: "write", position: 8, data: new Uint8Array(64).fill(255) });
      await writable.close();
    }
    return names.map(name => name.split(".")[1]).filter(type => type !== "costs").sort();
  }, change);
  assert.deepEqual(await entry(false), ["gguf", "json"]);
  const path = join(site.root, "cached.gguf"), bytes = readFileSync(path);

  utimesSync(path, new Date(), new Date(Date.now() + 60_000)); // another version, by its validators
  assert.deepEqual((await loadUntilCompile({ source: "/cached.gguf", cache: true })).phases, ["start", "download", "compile"]);

  const reload = async () => page.evaluate(async () => {
    const again = await Forerun.load("/cached.gguf");
    await again.dispose();
  });
  await reload(); // the aborted load left no entry; this one does
  assert.deepEqual(await entry(true), ["gguf", "json"]);
  assert.deepEqual((await loadUntilCompile({ source: "/cached.gguf", cache: true })).phases, ["start", "download", "compile"]);
  writeFileSync(path, bytes);
  assert.equal(await page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    for (let tries = 0; ; tries++) { // a load that was aborted lets go of its file a moment later
      await Forerun.clearCache();
      const n = (await Array.fromAsync(root.keys())).length;
      if (!n || tries === 20) return n;
      await new Promise(resolve => setTimeout(resolve, 100));
    }
  }), 0);
});

test("engine: loads from a File, given as bytes or as a stream too", async () => {
  const result = await page.evaluate(async prompt => {
    const blob = await (await fetch("/model.gguf")).blob();
    const until = async source => {
      const stop = new AbortController();
      let last;
      const end = await outcome(Forerun.load(source, { signal: stop.signal, onProgress: p => {
        last = p;
        if (p.phase === "compile") stop.abort();
      } }));
      return [end.name, last.loaded];
    };
    const bytes = await blob.arrayBuffer();
    const ends = [await until(bytes), await until(blob.stream())];
    const other = await Forerun.load(new File([blob], "mine.gguf"));
    const request = { prompt, max_tokens: 20, ignore_eos: true };
    const tokens = [(await other.completions.create(request)).token_ids, (await engine.completions.create(request)).token_ids];
    await other.dispose();
    return { ends, tokens, kept: bytes.byteLength };
  }, prompts[0]);
  const size = statSync(site.model).size;
  assert.deepEqual(result.ends, [["AbortError", size], ["AbortError", size]]);
  assert.equal(result.kept, size, "the caller's buffer is left alone");
  assert.deepEqual(result.tokens[0], result.tokens[1]);
});

test("engine: bad files give their error, and one line", async () => {
  const cases = {
    "/page.gguf": ["ModelError", /HTML/], "/blank.html": ["ModelError", /HTML/], "/nothing.gguf": ["DownloadError", /404/], "/truncated.gguf": ["ModelError", /truncated/],
    "/headless.gguf": ["ModelError", /truncated: it ends at byte 300/], "/wrong-version.gguf": ["ModelError", /99/], "/forerun.wasm": ["ModelError", /not a GGUF/], "http://127.0.0.1:9/x.gguf": ["DownloadError", /can't be reached/],
  };
  for (const [url, [name, message]] of Object.entries(cases)) {
    const end = await page.evaluate(url => outcome(Forerun.load(url)), url);
    assert.equal(end.name, name, `${url}: ${JSON.stringify(end)}`);
    assert.match(end.message, message);
    assert.doesNotMatch(end.message, /\n/);
    assert.equal(end.typed, true);
  }
  const entries = await page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    return Array.fromAsync((await root.getDirectoryHandle("forerun-models", { create: true })).keys());
  });
  assert.deepEqual(entries.filter(name => !name.endsWith(".costs")), [], "nothing bad stays in the cache");
  const wrong = await page.evaluate(async () => [await outcome(Forerun.load(5)), await outcome(Forerun.load("/x", { mode: "fast" })), await outcome(Forerun.load("/x", { context: -1 })), await outcome(Forerun.load("/x", { context: 2 ** 32 + 64 }))]);
  for (const end of wrong) assert.equal(end.name, "ArgumentError");
});

test("engine: a worker or a module that isn't there is said", async () => {
  const [worker, wasm] = await page.evaluate(async () => [
    await outcome(Forerun.load("/model.gguf", { workerUrl: "/none.js" })), await outcome(Forerun.load("/model.gguf", { wasmUrl: "/none.wasm" })),
  ]);
  assert.match(worker.message, /worker/);
  assert.match(wasm.message, /none\.wasm.*404/);
  for (const end of [worker, wasm]) assert.equal(end.typed, true);
});

test("engine: dispose puts everything back", async () => {
  assert.equal(await page.evaluate(async () => {
    await engine.dispose();
    await engine.dispose();
    return (await outcome(engine.stats())).name;
  }), "DisposedError");
});
