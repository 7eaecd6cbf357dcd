// cli_test.mjs: the program as its users meet it. Runs build/forerun on small random models and, where it is cached, on the default model.
//
//     node test/cli_test.mjs [NAME...]     only tests whose name begins with one of these
//
// FORERUN_BUILD and FORERUN_MODEL come from the Makefile. The last line is "N passed, N failed, N skipped".
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, closeSync, existsSync, lstatSync, mkdirSync, mkdtempSync, openSync, readFileSync, readSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const build = process.env.FORERUN_BUILD ?? join(root, "build");
const model = process.env.FORERUN_MODEL ?? spawnSync("make", ["-s", "-C", root, "model-path"], { encoding: "utf8" }).stdout.trim();
const program = join(build, "forerun");
const sanitized = () => {
  const path = join(build, "asan/forerun");
  assert.ok(existsSync(path), `${path} is missing: run \`make test-cli\``);
  return path;
};
const scratch = mkdtempSync(join(tmpdir(), "forerun-cli-"));
const MIB = 1 << 20;

// ---- harness

const tests = [];
const test = (name, run) => tests.push({ name, run });
class Skip extends Error {}
const skip = reason => {
  throw new Skip(reason);
};

/** Runs the program to its end. */
function forerun(args, { input = "", env = {}, of = program } = {}) {
  const r = spawnSync(of, args, { input, env: { ...process.env, ...env }, encoding: "utf8", maxBuffer: 64 * MIB, timeout: 300_000 });
  if (r.error) throw r.error;
  return r;
}

/** The JSON object of a run that must succeed, one line and nothing else. Without a GPU a run spends seconds on its shaders, so the same
 * run is not made twice. */
const known = new Map();
function json([verb, ...args], options) {
  const key = JSON.stringify([verb, args, options]);
  if (!known.has(key)) {
    const r = forerun([verb, "--json", ...args], options);
    assert.equal(r.status, 0, `${verb} ${args.join(" ")}: ${r.stderr}`);
    assert.equal(r.stderr, "", "nothing on stderr");
    assert.equal(r.stdout.split("\n").length, 2, "one line");
    known.set(key, JSON.parse(r.stdout));
  }
  return known.get(key);
}

/** A run that must fail with this status and one line that matches. */
function fails(status, pattern, args, options) {
  const r = forerun(args, options);
  const what = `forerun ${args.join(" ")}\n${r.stderr}`;
  assert.equal(r.signal, null, what);
  assert.equal(r.status, status, what);
  assert.match(r.stderr, /^forerun: [^\n]+\n$/, `one line: ${what}`);
  assert.match(r.stderr, pattern, what);
  assert.equal(r.stdout, "", what);
}

/** A random model, made once per set of options. */
function tiny(options = {}) {
  const words = Object.entries(options).flatMap(([k, v]) => [`--${k}`, String(v)]);
  const path = join(scratch, `tiny${words.join("_").replaceAll("/", "")}.gguf`);
  if (!existsSync(path)) {
    const r = spawnSync(join(build, "tiny_model"), ["--out", path, ...words], { encoding: "utf8" });
    assert.equal(r.status, 0, `tiny_model: ${r.stderr ?? r.error}`);
  }
  return path;
}

const real = () => (existsSync(model) ? model : skip(`the default model is not there (${model}); make model fetches it`));

function file(name, content) {
  const path = join(scratch, name);
  writeFileSync(path, content);
  return path;
}

const start = (path, bytes) => {
  const fd = openSync(path);
  const b = Buffer.alloc(bytes);
  readSync(fd, b, 0, bytes, 0);
  closeSync(fd);
  return b;
};

// ---- help and arguments

const verbs = ["run", "bench", "info", "tokenize", "compare", "sim", "selftest"];

test("help.program", () => {
  const r = forerun(["--help"]);
  assert.equal(r.status, 0);
  for (const verb of verbs) assert.match(r.stdout, new RegExp(`^  ${verb} `, "m"));
  assert.match(forerun(["--version"]).stdout, /^forerun \d+\.\d+\.\d+\n$/);
});

for (const verb of verbs)
  test(`help.${verb}`, () => {
    const r = forerun([verb, "--help"]);
    assert.equal(r.status, 0);
    assert.equal(r.stderr, "");
    assert.match(r.stdout, new RegExp(`^usage: forerun ${verb} `));
    assert.equal(forerun(["help", verb]).stdout, r.stdout);
  });

const badArguments = [
  [[], /no verb/],
  [["frobnicate"], /no verb "frobnicate"/],
  [["help", "frobnicate"], /no verb "frobnicate"/],
  [["convert", "x"], /no verb "convert"/],
  [["run"], /needs a model/],
  [["run", "", "-p", "a"], /run needs the name of a file, not ""/],
  [["run", "m", "-f", ""], /-f needs the name of a file, not ""/],
  [["run", "m", "--page=", "-p", "a"], /--page needs the name of a file, not ""/],
  [["run", "m", "-f", "/"], /\/: Is a directory; give a text file/],
  [["compare", "m", "--log="], /--log needs the name of a file, not ""/],
  [["bench", "m", "--width", "3"], /--width is 1, 2, 4, 8, 16 or 32, not 3/],
  [["bench"], /needs a model/],
  [["compare", "m.gguf", "--log", "log.jsonl", "--way", "tree 7"], /--way tree 7: no such way; there are "greedy", .*"adaptive W8"/],
  [["tokenize"], /needs a model/],
  [["run", "m", "--frob"], /no option --frob/],
  [["run", "m", "-n"], /-n needs a value/],
  [["run", "m", "-n", "0"], /-n wants a whole number/],
  [["run", "m", "-n", "-3"], /-n wants a whole number/],
  [["run", "m", "-n", "12x"], /-n wants a whole number/],
  [["run", "m", "-n=99999999999999999999"], /no option -n=/],
  [["run", "m", "--window", "17"], /--window wants a whole number from 1 to 16/],
  [["run", "m", "--window=0"], /--window wants a whole number from 1 to 16/],
  [["run", "m", "--json=yes"], /--json takes no value/],
  [["run", "m", "-p", "a", "b"], /one file/],
  [["run", "m", "-p", "a", "-f", "b"], /-p and -f/],
  [["run", "m", "-p", ""], /prompt is empty/],
  [["run", "m"], /prompt is empty/],
  [["run", "m", "-f", "/nonexistent"], /\/nonexistent: /],
  [["run", "m", "--page", "/nonexistent", "-p", "a"], /\/nonexistent: /],
  [["run", "m", "-p", "a", "--raw", "--system", "b"], /--raw has no system message/],
  [["run", "m", "-p", "a", "--mode", "fast"], /--mode is greedy, loop, tree or adaptive/],
  [["run", "m", "-p", "a", "--mode", "loop", "--width", "8"], /--width is for --mode tree and adaptive/],
  ...["1001", "0", "-1", "abc", ""].map(ms => [["run", "m", "-p", "a", "--budget", ms], new RegExp(`--budget wants a whole number from 1 to 1000, not "${ms}"`)]),
  [["run", "m", "-p", "a", "--mode", "GREEDY"], /--mode is greedy, loop, tree or adaptive, not "GREEDY"/],
  [["run", "m", "-p", "a", "--mode", "tree", "--width", "12"], /--width is 2, 4, 8, 16 or 32, not 12/],
  [["run", "m", "-p", "a", "--mode", "tree", "--width", "64"], /--width wants a whole number from 2 to 32/],
  [["run", "m", "-p", "a", "--conversation", "c"], /--conversation is for --memory/],
  [["run", "m", "-p", "a", "--memory", "f", "--conversation", ""], /--conversation needs a name/],
  [["run", "m", "-p", "a", "--memory", "/nonexistent/f"], /folder can't be written to/],
  [["run", "m", "-p", "a", "--memory", "/dev/null"], /no regular file/],
  [["run", "m", "-p", "a", "--heads", "f"], /not in this version/],
  [["run", "m", "-p", "a", "--temp", "0.7"], /not in this version/],
  [["run", "m", "-p", "a", "--seed", "1"], /not in this version/],
  [["run", "m", ...Array(17).fill(["--stop", "x"]).flat()], /16 times at most/],
  [["sim"], /sim needs a log/],
  [["sim", "/nonexistent"], /\/nonexistent: /],
  [["sim", "log", "--drafters", "lookup,oracle"], /--drafters is a list of lookup, suffix, mixing, fixed.*not "oracle"/],
  [["sim", "log", "--drafters", "fixed,fixed"], /each once; not "fixed"/],
  [["sim", "log", "--drafters="], /--drafters is empty/],
  [["sim", "log", "--widths="], /--widths is empty/],
  [["sim", "log", "--memory="], /--memory is empty/],
  [["sim", "log", "--widths", "8,4"], /--widths is a list.*not "4"/],
  [["sim", "log", "--widths", "64"], /--widths is a list.*not "64"/],
  [["sim", "log", "--memory", "1M"], /--memory is a list.*not "1M"/],
  [["sim", "log", "--scope", "page"], /--scope is all or task/],
  [["sim", "log", "--json", "--csv"], /exclude each other/],
  [["sim", "log", "--curves", "h200"], /--curves is for --control/],
  [["sim", "log", "--noise", "3"], /--noise is for --control/],
  [["sim", "log", "--control", "--csv"], /--control .* leave --csv out/],
  [["sim", "log", "--control", "--scope", "task"], /--control .* leave --scope out/],
  [["sim", "log", "--control", "--memory", "0,1K"], /--control takes one size of --memory/],
  [["selftest", "m"], /takes no model/],
];
test("arguments.wrong", () => {
  for (const [args, pattern] of badArguments) fails(2, pattern, args);
  fails(2, /NUL byte/, ["run", "m"], { input: "a\0b" });
});

// ---- model files

/** The random model with `to` written over where it has `from`. */
function patched(name, from, to) {
  const bytes = Buffer.from(readFileSync(tiny())), at = bytes.indexOf(from);
  assert.ok(at > 0, from);
  bytes.write(to, at, "latin1");
  return file(name, bytes);
}

/** Files that are no models, and what the error line must say. */
function badFiles() {
  const whole = readFileSync(tiny());
  return [
    ["/nonexistent.gguf", /No such file/],
    [scratch, /is a directory/],
    [file("empty.gguf", ""), /empty/],
    [file("page.gguf", "<!DOCTYPE html>\n<html><head><title>404</title></head><body>Not found</body></html>\n"), /HTML|web page/i],
    [file("magic.gguf", Buffer.concat([Buffer.from("GGML"), whole.subarray(4)])), /GGUF/],
    [file("version.gguf", Buffer.concat([whole.subarray(0, 4), Buffer.from([99, 0, 0, 0]), whole.subarray(8)])), /version/i],
    [file("header.gguf", whole.subarray(0, 300)), /truncated: it ends at byte 300/],
    [file("data.gguf", whole.subarray(0, whole.length - 4096)), /truncated|ends|bytes/],
    [file("counts.gguf", Buffer.concat([whole.subarray(0, 8), Buffer.alloc(16, 0xff), whole.subarray(24)])), /claims 18446744073709551615 tensors/],
    [patched("architecture.gguf", "llama", "lloma"), /architecture is lloma/],
    [patched("tokenizer.gguf", "gpt2", "spm2"), /tokenizer "spm2" is not supported/],
    [patched("merges.gguf", "tokenizer.ggml.merges", "tokenizer.ggml.mergez"), /no vocabulary/],
    [patched("bos.gguf", "bos_token_id", "bos_token_id\x04\0\0\0\x7f\x7f\x7f\x7f"), /bos_token_id/],
    [tiny({ pre: "odd" }), /pre-tokenizer "odd" is not supported/],
  ];
}
test("model.bad_files", () => {
  for (const [path, what] of badFiles()) {
    const pattern = new RegExp(`^forerun: ${path.replaceAll(".", "\\.")}(?=: | is ).*${what.source}`, what.flags); // each names the file first
    fails(3, pattern, ["run", path, "-p", "a"]);
    for (const of of [program, sanitized()]) { // these two open no GPU, whose libraries the sanitizers know nothing of
      fails(3, pattern, ["info", path], { of });
      fails(3, pattern, ["tokenize", path, "-p", "a"], { of });
    }
  }
  fails(3, /No such file/, ["bench", "/nonexistent.gguf"]);
  const path = patched("template.gguf", "<|im_start|>", "<|im_begin|>");
  fails(3, /^forerun: .*template\.gguf: tokenizer\.chat_template: neither ChatML nor Llama-3/, ["run", path, "-p", "a"]);
});

// ---- adapters

const noGpu = { VK_DRIVER_FILES: "/nonexistent.json", VK_ICD_FILENAMES: "/nonexistent.json", FORERUN_SWIFTSHADER: "/nonexistent.json" };

test("adapter.none", () => {
  const path = tiny();
  fails(4, /no usable GPU/, ["run", path, "-p", "a"], { env: noGpu });
  fails(4, /no usable GPU/, ["bench", path], { env: noGpu });
  fails(4, /no usable GPU/, ["selftest"], { env: noGpu });
  fails(4, /no usable GPU/, ["info"], { env: noGpu });
  assert.match(json(["info", path], { env: noGpu }).adapter.error, /no usable GPU/);
  assert.ok(json(["tokenize", path, "-p", "hello"], { env: noGpu }).ids.length > 0);
});

test("adapter.unknown_name", () => fails(4, /no adapter matches "zx81"; this machine has: /, ["run", tiny(), "-p", "a", "--adapter", "zx81"]));

test("adapter.cpu", () => {
  const { adapter } = json(["info", "--adapter", "cpu"]);
  assert.equal(adapter.software, true);
  assert.ok(adapter.maxStorageBufferBindingSize >= 128 * MIB);
});

// ---- info and tokenize

test("info.default_model", () => {
  const m = json(["info", real()]).model;
  assert.equal(m.architecture, "llama");
  assert.deepEqual([m.layers, m.dim, m.heads, m.kv_heads, m.head_dim, m.ffn_dim, m.vocabulary], [30, 576, 9, 3, 64, 1536, 49152]);
  assert.equal(m.types, "Q4_1, Q8_0");
  assert.equal(m.file_bytes, statSync(model).size);
  assert.equal(m.tokenizer, "smollm");
  assert.equal(m.template, "chatml");
  assert.match(forerun(["info", model]).stdout, /^ {2}layers +30$/m);
});

test("info.strange_name", () => {
  const bytes = Buffer.from(readFileSync(tiny()));
  bytes.write("\x1b[2J", bytes.indexOf("general.name") + "general.name".length + 12, "latin1"); // clears a terminal
  const path = file("strange.gguf", bytes);
  const r = forerun(["info", path], { env: noGpu });
  assert.equal(r.status, 0, r.stderr);
  assert.match(r.stdout, /^ {2}name +\[2J$/m);
  assert.doesNotMatch(r.stdout, /\x1b/);
  assert.equal(json(["info", path], { env: noGpu }).model.name, "\x1b[2J", "JSON has it as it is, escaped");
});

test("tokenize.special_tokens", () => {
  const path = real();
  const text = "<|im_start|>user";
  const plain = json(["tokenize", path, "-p", text]);
  const special = json(["tokenize", path, "-p", text, "--special"]);
  assert.deepEqual(special, { ids: [1, 4093], pieces: ["<|im_start|>", "user"] });
  assert.ok(plain.ids.length > special.ids.length && !plain.ids.includes(1));
  assert.equal(plain.pieces.join(""), text);
  assert.equal(forerun(["tokenize", path, "--special"], { input: text }).stdout, '1\t"<|im_start|>"\n4093\t"user"\n');
});

test("tokenize.escapes", () => {
  const text = '"\\\t\u0001\n é';
  assert.equal(json(["tokenize", real(), "-p", text]).pieces.join(""), text);
});

// ---- sim: its figures are tested in test/test_sim.c

const log = () => file("log.jsonl", `{"task":"a, \\"b\\"","prompt_ids":[3],"tokens":[7,8,9,10,11,12]}\n\n{"prompt_ids":[5,7],"tokens":[8,9,10,11,12]}\n`);

test("sim.tables", () => {
  const r = forerun(["sim", log(), "--memory", "0,1000,2K,all"]);
  assert.equal(r.status, 0, r.stderr);
  assert.match(r.stdout, /^Tokens per step, outputs cut where they start to loop \(2 outputs, 9 tokens\)$/m);
  assert.match(r.stdout, /^ {2}memory {5}nodes {7}0 {4}1000 {6}2K {5}all$/m);
  assert.match(r.stdout, /^ {2}lookup {9}8 {3}1.000 {3}1.500 {3}1.500 {3}1.500$/m);
  assert.equal(forerun(["sim", "-", "--memory", "0,1000,2K,all"], { input: readFileSync(log(), "utf8") }).stdout, r.stdout);
});

test("sim.json_and_csv", () => {
  const words = [log(), "--drafters", "fixed,lookup", "--memory", "0,all", "--widths", "8"];
  const r = json(["sim", ...words]);
  assert.deepEqual([r.outputs, r.scope, r.prompts], [2, "all", false]);
  assert.equal(r.figures.length, 2 * 2 * 3, "drafters, memory sizes, two tasks and their sum");
  assert.deepEqual(r.figures[3], { drafter: "fixed", nodes: 8, cut: { tokens: 9, steps: 6, tau: 1.5 }, whole: { tokens: 9, steps: 6, tau: 1.5 } });
  const lines = forerun(["sim", "--csv", ...words]).stdout.trimEnd().split("\n");
  assert.equal(lines[0], "drafter,nodes,memory,task,cut_tokens,cut_steps,cut_tau,whole_tokens,whole_steps,whole_tau");
  assert.equal(lines[4], 'fixed,8,all,"*",9,6,1.5000,9,6,1.5000');
  assert.equal(lines.length, 1 + r.figures.length);
});

test("sim.task_names", () => {
  const names = { 'a, "b"': '"a, \\"b\\""', "caf\u00e9/\u{1F433}\\": '"caf\\u00e9\\/\\ud83d\\uDC33\\\\"', "x\ty": '"x\\ty"', "\ufffd\ufffd": '"\\ud83d\\u0000"' };
  const line = task => `{"task":${task},"prompt_ids":[3],"tokens":[7,8,9]}\n`;
  const path = file("names.jsonl", [...Object.values(names), '"caf\u00e9/\u{1F433}\\\\"'].map(line).join("")), words = [path, "--drafters", "fixed", "--memory", "0", "--widths", "8"];
  assert.deepEqual(json(["sim", ...words]).figures.slice(1).map(f => f.task).sort(), Object.keys(names).sort(), "the same name written in two ways is one");
  const csv = forerun(["sim", "--csv", ...words]).stdout;
  assert.match(csv, /^fixed,8,0,"a, ""b""",/m);
  assert.match(csv, /^fixed,8,0,"caf\u00e9\/\u{1F433}\\",/mu);
  const table = forerun(["sim", ...words]).stdout;
  assert.match(table, /^ {2}caf\u00e9\/\u{1F433}\\ {11} {7}4 /mu, "padded by characters");
  assert.match(table, /^ {2}x y {2}/m, "nothing from a log moves a terminal's cursor");
  for (const wrong of ['"\\x"', '"\\u12g4"', '"\\u12"'])
    fails(2, /names\.jsonl:1: "task" has an escape that JSON does not know/, ["sim", file("names.jsonl", line(wrong))]);
});

test("sim.control", () => {
  const r = json(["sim", log(), "--control", "--curves", "h200,swiftshader"]);
  assert.deepEqual(r.devices.map(d => [d.device, d.whole, d.tokens]), [["h200", false, 9], ["h200", true, 9], ["swiftshader", false, 9], ["swiftshader", true, 9]]);
  for (const d of r.devices) assert.ok(d.oracle_ms_per_token <= d.plain.ms_per_token && d.adaptive.ms_per_token > 0 && d["tree 32"].tau >= 1);
  const text = forerun(["sim", log(), "--control", "--curves", "h200"]).stdout;
  assert.match(text, /^h200 +\d/m);
  assert.doesNotMatch(text, /^laptop/m);
});

test("sim.bad_log", () => {
  fails(2, /--curves is a list of workstation, .*, not "fast"/, ["sim", log(), "--control", "--curves", "h200,fast"]);
  fails(2, /--curves is a list of workstation, .*, not ""/, ["sim", log(), "--control", "--curves="]);
  fails(2, /no answer of the log has a second token/, ["sim", file("short.jsonl", `{"prompt_ids":[3],"tokens":[7]}\n`), "--control"]);
  const path = file("bad.jsonl", `{"prompt_ids":[3],"tokens":[7]}\n{"prompt_ids":[3],"text":"x"}\n`);
  fails(2, /bad\.jsonl:2: there is no "tokens"; a log has a line of "forerun run --json" for each answer$/m, ["sim", path]);
});

// ---- run, on a random model

const prompt = ["-p", "The quick brown fox"];
const talker = () => tiny({ seed: 4 }); // does not end by itself, and says different things
const raw = (...args) => json(["run", talker(), ...prompt, "--raw", ...args]);
const answer = () => raw("-n", "40");

test("run.json", () => {
  const r = answer();
  assert.deepEqual(Object.keys(r).sort(), ["adapter", "dispatches_per_step", "finish_reason", "memory", "probes", "prompt_ids", "steps", "submits", "tau", "text", "timing", "tokens", "usage", "widths", "window"]);
  assert.deepEqual(Object.keys(r.usage), ["prompt_tokens", "completion_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens", "cached_tokens"]);
  assert.deepEqual(Object.keys(r.timing), ["load_ms", "calibrate_ms", "prefill_ms", "first_token_ms", "decode_ms", "ms_per_token"]);
  for (const v of Object.values(r.timing)) assert.ok(v >= 0);
  assert.deepEqual(r.memory, { tokens: r.usage.prompt_tokens < 8 ? r.usage.prompt_tokens + 40 : 48, searched: 0 }, "of this process only");
  assert.equal(r.tokens.length, r.usage.completion_tokens);
  assert.deepEqual(r.prompt_ids, json(["tokenize", talker(), ...prompt]).ids);
  assert.equal(r.usage.prompt_tokens, r.prompt_ids.length);
  const loop = raw("-n", "40", "--mode", "loop");
  assert.deepEqual([loop.tokens, loop.widths, loop.steps, loop.tau], [r.tokens, { 1: 40 }, 40, 1], "each step chose a token of the answer");
  assert.equal(Object.values(r.widths).reduce((a, b) => a + b), r.steps);
  assert.ok(r.submits > 0 && r.dispatches_per_step > 0 && r.probes >= 0);
});

test("run.costs_are_kept", () => {
  const cache = join(scratch, "cache"), options = { env: { FORERUN_CACHE: "", XDG_CACHE_HOME: cache } }, folder = join(cache, "forerun/costs");
  const run = (...args) => json(["run", talker(), ...prompt, "--raw", "-n", "40", ...args], options).tokens;
  assert.deepEqual(run(), answer().tokens);
  const [name] = readdirSync(folder), path = join(folder, name);
  assert.match(name, /^[0-9a-f]{16}$/);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const bytes = readFileSync(path);
  assert.equal(bytes.subarray(0, 8).toString(), "FRCOSTS1");
  for (const content of [bytes.subarray(0, 100), Buffer.from("nonsense"), Buffer.alloc(0)]) { // damaged: measured again, without a word
    writeFileSync(path, content);
    assert.deepEqual(run("--stop", `never ${content.length}`), answer().tokens);
    assert.equal(readFileSync(path).length, bytes.length);
  }
  run("--context", "128");
  assert.equal(readdirSync(folder).length, 2, "another context has costs of its own");
  writeFileSync(join(scratch, "no folder"), "");
  assert.deepEqual(json(["run", talker(), ...prompt, "--raw", "-n", "40"], { env: { FORERUN_CACHE: join(scratch, "no folder") } }).tokens, answer().tokens);
});

test("run.budget", () => {
  const r = raw("-n", "40", "--budget", "1");
  assert.deepEqual(r.tokens, answer().tokens);
  assert.ok(r.submits > r.steps, `${r.submits} submissions for ${r.steps} steps`);
});

test("run.length", () => {
  const { tokens, finish_reason } = answer();
  assert.ok(finish_reason === "length" && tokens.length === 40, "the model talks on");
  for (const n of [1, 17]) {
    const r = raw("-n", String(n));
    assert.equal(r.finish_reason, "length");
    assert.deepEqual(r.tokens, tokens.slice(0, n));
  }
});

test("run.ends_by_itself", () => {
  let r; // random weights: which prompt leads to an end token changes with every bit of a kernel
  for (const text of ["Once upon a time", prompt[1], "zebra 123", "a", "b"])
    if ((r = json(["run", tiny(), "-p", text, "--raw", "-n", "400"])).finish_reason === "stop") break;
  assert.equal(r.finish_reason, "stop");
  assert.ok(r.tokens.length < 400);
  assert.equal(r.steps + r.usage.accepted_prediction_tokens, r.tokens.length + 1, "one step chose the end token");
  assert.equal(r.tau, Math.round(1000 * r.tokens.length / r.steps) / 1000); // three digits are printed
});

test("run.loop_is_greedy", () => {
  const greedy = raw("-n", "40", "--mode", "greedy");
  for (const window of [1, 3, 8]) {
    const loop = raw("-n", "40", "--mode", "loop", "--window", String(window));
    assert.deepEqual(loop.tokens, greedy.tokens, `window ${window}`);
    assert.equal(loop.text, greedy.text);
    assert.equal(loop.finish_reason, greedy.finish_reason);
    assert.equal(loop.window, window);
  }
});

test("run.tree_is_greedy", () => { // plain steps first, trees once their kernels are there
  const tree = raw("-n", "40", "--mode", "tree", "--width", "4", "--window", "2");
  assert.deepEqual([tree.tokens, tree.text], [answer().tokens, answer().text]);
  assert.equal(tree.window, 2);
  assert.equal((tree.widths["1"] ?? 0) + (tree.widths["4"] ?? 0), tree.steps, JSON.stringify(tree.widths));
});

test("run.memory_file", () => {
  const path = join(scratch, "answers.memory"), folder = () => readdirSync(scratch).filter(name => name.startsWith("answers.memory"));
  const keep = ["-n", "40", "--memory", path];
  const first = raw(...keep);
  assert.deepEqual([first.tokens, first.memory], [answer().tokens, { tokens: 48, searched: 0 }]);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  chmodSync(path, 0o640);
  const link = join(scratch, "link.memory");
  symlinkSync(path, link);
  const tree = raw("-n", "40", "--memory", link, "--mode", "tree");
  assert.deepEqual([tree.tokens, tree.memory], [answer().tokens, { tokens: 96, searched: 48 }]);
  assert.ok(lstatSync(link).isSymbolicLink(), "a link stays one");
  assert.equal(statSync(path).mode & 0o777, 0o640);
  const text = forerun(["run", talker(), ...prompt, "--raw", "--mode", "tree", ...keep, "--conversation", "tea"]);
  assert.equal(text.status, 0, text.stderr);
  assert.match(text.stderr, /0 tokens of memory searched, 144 there now$/m);
  assert.deepEqual(folder(), ["answers.memory"], "nothing else is left behind");
});

test("run.memory_refused", () => {
  const good = join(scratch, "good.memory");
  raw("-n", "4", "--memory", good);
  const bytes = readFileSync(good), changed = (at, value) => Buffer.concat([bytes.subarray(0, at), Buffer.from([value]), bytes.subarray(at + 1)]);
  const cases = [[changed(40, bytes[40] ^ 1), /bad\.memory: its checksum is wrong.*damaged/], [changed(8, 9), /version 9/]]; // more in test_memory.c
  for (const [content, pattern] of cases) {
    const path = file("bad.memory", content);
    fails(2, pattern, ["run", talker(), ...prompt, "--raw", "--memory", path]);
    assert.deepEqual(readFileSync(path), content, "untouched");
  }
  fails(2, /another model/, ["run", tiny({ vocab: 331 }), ...prompt, "--raw", "--memory", good]);
  assert.deepEqual(readFileSync(good), bytes);
  const dangling = join(scratch, "dangling.memory"), locked = file("locked.memory", bytes), fixed = file("fixed.memory", bytes);
  symlinkSync(join(scratch, "nothing.memory"), dangling);
  chmodSync(locked, 0o200);
  chmodSync(fixed, 0o400);
  for (const [path, pattern] of [
    [dangling, /dangling\.memory is a link to a file that is not there; remove it/],
    [scratch, / is a directory; give session memory a file/],
    [join(scratch, "none/f"), /none\/f: its folder can't be written to: No such file or directory; give/],
    [join(good, "f"), /good\.memory\/f: Not a directory; give/],
    ...process.getuid() === 0 ? [] : [ // root may do anything
      [locked, /locked\.memory can't be read: Permission denied; make it readable/],
      [fixed, /fixed\.memory can't be written to: Permission denied; make it writable/],
    ],
  ]) fails(2, pattern, ["run", "m", ...prompt, "--memory", path]);
  assert.ok(lstatSync(dangling).isSymbolicLink() && !existsSync(dangling), "the link is as it was");
  assert.equal(statSync(locked).size, bytes.length);
  fails(2, /--memory needs the name of a file/, ["run", talker(), ...prompt, "--memory", ""]);
});

test("run.text_is_streamed", () => {
  const { text } = answer();
  const r = forerun(["run", talker(), ...prompt, "--raw", "-n", "40"]);
  assert.equal(r.status, 0);
  assert.equal(r.stdout, text.endsWith("\n") || text === "" ? text : `${text}\n`);
  assert.match(r.stderr, /^40 tokens, /m);
});

test("run.prompt_sources", () => {
  const { tokens } = answer();
  const text = file("prompt.txt", prompt[1]);
  assert.deepEqual(json(["run", talker(), "-f", text, "--raw", "-n", "40"]).tokens, tokens);
  assert.deepEqual(json(["run", "--raw", "-n", "40", "--", talker()], { input: prompt[1] }).tokens, tokens);
});

test("run.stop_strings", () => {
  const whole = answer().text;
  const stop = [...whole.slice(Math.floor(whole.length / 2))].slice(0, 3).join("");
  assert.ok(stop, "the model says something");
  const cut = raw("-n", "40", "--stop", "this text never comes, \u{1F433}", "--stop", stop);
  assert.equal(cut.text, whole.slice(0, whole.indexOf(stop)));
  assert.equal(cut.finish_reason, "stop");
  assert.ok(cut.tokens.length < 40);
});

test("run.context_too_small", () => {
  fails(2, /context/, ["run", tiny(), ...prompt, "--raw", "--context", "4"]);
  fails(2, /context/, ["run", tiny(), ...prompt, "--raw", "--context", "1000000"]);
});

test("run.context_fills", () => {
  const r = raw("--context", "64");
  assert.ok(r.usage.prompt_tokens + r.usage.completion_tokens <= 64);
  assert.ok(["length", "stop"].includes(r.finish_reason));
});

test("run.stdout_full", () => {
  if (!existsSync("/dev/full")) skip("no /dev/full");
  const full = openSync("/dev/full", "w");
  const r = spawnSync(program, ["run", tiny(), ...prompt, "--raw", "-n", "8", "--json"], { stdio: ["ignore", full, "pipe"], encoding: "utf8" });
  closeSync(full);
  assert.equal(r.status, 1);
  assert.match(r.stderr, /^forerun: can't write to standard output[^\n]*\n$/);
});

test("run.stdout_fails", () => { // the answer is given up with its first piece, not computed to its end
  if (!existsSync("/dev/full")) skip("no /dev/full");
  const full = openSync("/dev/full", "w");
  const r = spawnSync(program, ["run", talker(), ...prompt, "--raw", "--mode", "greedy", "--memory", join(scratch, "part.memory")], { stdio: ["ignore", full, "pipe"], encoding: "utf8" });
  closeSync(full);
  assert.equal(r.status, 1);
  assert.match(r.stderr, /^forerun: can't write to standard output: [^\n]*\n$/);
  assert.ok(statSync(join(scratch, "part.memory")).size < 1024, "far less than the 2048 tokens that there is room for");
});

/** Starts a long answer and sends SIGINT when its first text is there. */
async function interrupted(args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stderr.setEncoding("utf8").on("data", s => (err += s));
  child.stdout.setEncoding("utf8").on("data", s => {
    if (!out) child.kill("SIGINT");
    out += s;
  });
  const [status, signal] = await new Promise(done => child.on("close", (...r) => done(r)));
  return { out, err, status, signal };
}

test("run.interrupt", async () => {
  const args = ["run", tiny({ layers: 8, context: 2048 }), ...prompt, "--raw", "--stop", "\u{1F433}", "--mode", "greedy"];
  const r = await interrupted(args);
  assert.equal(r.signal, null);
  assert.equal(r.status, 1, r.err);
  assert.match(r.err, /forerun: interrupted\n$/);
  assert.ok(r.out.length > 0);
  const whole = json([...args, "-n", String([...r.out].length + 8)]).text;
  const common = r.out.replace(/\n$/, "").replace(/\uFFFD$/, ""); // the last code point may have been half there
  assert.ok(whole.startsWith(common), "what was printed is the beginning of the answer");
});

test("run.interrupt_while_loading", async () => {
  const pipe = join(scratch, "slow.gguf");
  assert.equal(spawnSync("mkfifo", [pipe]).status, 0);
  const child = spawn(program, ["run", pipe, ...prompt], { stdio: ["ignore", "pipe", "pipe"] });
  let err = "";
  child.stderr.setEncoding("utf8").on("data", s => (err += s));
  const closed = new Promise(done => child.on("close", (...r) => done(r)));
  const writer = openSync(pipe, "w"); // returns when the program has opened its end
  const piece = start(tiny(), 2048);
  writeFileSync(writer, piece);
  await new Promise(done => setTimeout(done, 1500));
  child.kill("SIGINT");
  const [status, signal] = await closed;
  closeSync(writer);
  assert.equal(signal, null);
  assert.equal(status, 1, err);
  assert.match(err, /^forerun: interrupted while loading [^\n]+\n$/);
});

test("compare.log_of_another_model", () => {
  const path = file("foreign.jsonl", `{"prompt_ids":[3],"tokens":[7]}\n{"prompt_ids":[3,320],"tokens":[7]}\n`);
  const options = ["-n", "2", "--way", "loop W1"];
  fails(2, /foreign\.jsonl: prompt 2: token 1 of the prompt is 320, the vocabulary has 320/, ["compare", talker(), "--log", path, ...options]);
  fails(2, /standard input: prompt 1: token 0 /, ["compare", talker(), "--log", "-", ...options], { input: `{"prompt_ids":[320],"tokens":[]}` });
});

// ---- run, on the default model

test("run.chat", () => {
  const path = real();
  const question = "What is 2+2?"; // PyTorch's answer, in which no token is a close call
  const r = json(["run", path, "-p", question, "-n", "24"]);
  assert.equal(r.text, "The answer to this classic math problem is 4.");
  assert.equal(r.finish_reason, "stop");
  assert.equal(r.usage.prompt_tokens, 37);
  assert.equal(r.dispatches_per_step, (/\(CPU\)/.test(r.adapter) ? 5 : 6) * 30 + 3, "six a layer, five on a CPU adapter; embed, head and advance");
  // The same prompt, its template written out by hand.
  const system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
  const text = `<|im_start|>system\n${system}<|im_end|>\n<|im_start|>user\n${question}<|im_end|>\n<|im_start|>assistant\n`;
  const byHand = json(["run", path, "--raw", "-p", text, "-n", "24", "--mode", "greedy"]);
  assert.deepEqual(byHand.tokens, r.tokens);
  assert.equal(byHand.usage.prompt_tokens, r.usage.prompt_tokens);
});

test("run.page_and_system", () => {
  const path = real();
  const page = file("page.txt", "\nThe lighthouse at Cape Orl is painted green.\n\n");
  const r = json(["run", path, "--page", page, "--system", "Answer in one sentence.", "-p", "Which colour is it?\n", "-n", "4"]);
  const text = "<|im_start|>system\nAnswer in one sentence.<|im_end|>\n<|im_start|>user\nThe lighthouse at Cape Orl is painted green.\n\nWhich colour is it?<|im_end|>\n<|im_start|>assistant\n";
  assert.equal(r.usage.prompt_tokens, json(["tokenize", path, "--special", "-p", text]).ids.length);
});

// ---- bench and selftest

test("bench.json", () => {
  const r = json(["bench", tiny(), "-n", "8", "--prompt-tokens", "40", "--repeats", "2", "--window", "4", "--width", "2"]);
  assert.equal(r.prefill.samples_ms.length, 2);
  for (const mode of ["greedy", "loop", "tree", "adaptive"]) {
    assert.equal(r[mode].samples_ms.length, 2);
    assert.ok(r[mode].ms_per_token > 0 && r[mode].submits > 0);
  }
  assert.ok(r.prefill.tokens_per_s > 0 && r.floor.ms > 0 && r.bytes_per_step > 0 && r.device_bytes > 0);
  assert.deepEqual([r.tree.width, r.tree.window, r.steps.map(s => s.width)], [2, 4, [1, 2]]);
  for (const s of r.steps) assert.ok(s.ms_per_step > 0 && s.tau > 0 && s.tau <= 9 && s.samples_ms.length === 2);
  assert.ok(r.loop.submits < r.greedy.submits, "the loop reads back once a window");
  fails(2, /context/, ["bench", tiny(), "--prompt-tokens", "100000"]);
});

test("bench.profile", () => {
  const r = json(["bench", tiny(), "--profile", "--prompt-tokens", "40", "--repeats", "2", "--width", "1"]);
  assert.deepEqual(r.profiles.map(p => [p.nodes, p.positions]), [[1, 40], [32, 40]]);
  for (const p of r.profiles) {
    assert.equal(p.kernels.reduce((n, k) => n + k.dispatches, 0), p.dispatches);
    assert.ok(p.step_ms > 0 && p.step_samples_ms.length === 2 && p.floor_ms > 0);
    for (const k of p.kernels) assert.ok(k.us > 0 && k.one_layer_us > 0 && k.samples_us.length === 2 && k.floor_us > 0, k.kernel);
    assert.ok(Math.abs(p.sum_ms - p.kernels.reduce((sum, k) => sum + k.dispatches * k.us, 0) / 1000) < 0.01);
  }
  const weights = r.profiles[0].kernels.filter(k => k.matrix && k.kernel !== "embed"); // embed reads one row of the table, the head all of it
  const products = weights.reduce((sum, k) => sum + k.products, 0), bytes = weights.reduce((sum, k) => sum + k.bytes, 0);
  assert.equal(bytes, products / 32 * 34, "Q8_0 has 34 bytes for 32 weights");
  fails(2, /context/, ["bench", tiny(), "--profile", "--prompt-tokens", "2000"]);
});

test("selftest", () => {
  const r = forerun(["selftest", "--adapter", "cpu"]);
  assert.equal(r.status, 0, r.stderr + r.stdout.split("\n").slice(-5).join("\n"));
  assert.match(r.stdout, /^ok {6}/m);
  assert.doesNotMatch(r.stdout, /FAILED/);
});

// ---- memory

const rss = pid => 1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
/** Clock ticks that the process and its threads have worked. */
const ticks = pid => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return Number(fields[11]) + Number(fields[12]);
};
const sleep = ms => new Promise(done => setTimeout(done, ms));

/** Waits until a process that had work to do has none. */
async function idle(pid) {
  for (let quiet = 0, last = -1; quiet < 4; await sleep(500)) {
    const now = ticks(pid);
    quiet = now - last <= 1 ? quiet + 1 : 0;
    last = now;
  }
}

/** Feeds a model through a pipe. With the header there, buffers are made (and zeroed, so that they are resident) and shaders compile, on a
 * software adapter in hundreds of megabytes of this very process; the weights are held back until that is over. Then: by how much the
 * process grew, at most, while they went in. */
async function growth(path) {
  const pipe = join(scratch, "fed.gguf");
  assert.equal(spawnSync("mkfifo", [pipe]).status, 0);
  const child = spawn(program, ["run", pipe, ...prompt, "--raw", "--context", "64", "--adapter", "cpu"], { stdio: ["ignore", "ignore", "pipe"] });
  const closed = new Promise(done => child.on("close", done));
  let err = "";
  child.stderr.setEncoding("utf8").on("data", s => (err += s));
  const [source, writer] = [openSync(path), openSync(pipe, "w")];
  const piece = Buffer.alloc(MIB);
  let [before, peak] = [0, 0];
  for (let n, first = true; (n = readSync(source, piece, 0, MIB, null)) > 0; first = false) {
    writeSync(writer, piece, 0, n);
    if (first) {
      await idle(child.pid);
      before = rss(child.pid);
    }
    peak = Math.max(peak, rss(child.pid));
  }
  for (let i = 0; i < 50; i++, await sleep(10)) peak = Math.max(peak, rss(child.pid)); // what the pipe still held is taken now
  child.kill("SIGINT");
  closeSync(writer);
  closeSync(source);
  await closed;
  assert.match(err, /^forerun: interrupted while loading [^\n]+\n$/);
  return { before, grown: peak - before };
}

test("memory.weights_pass_through", async () => {
  if (!existsSync("/proc/self/status")) skip("no /proc");
  const path = tiny({ shape: "Qwen2.5-0.5B", vocab: 320, type: "q4_0" });
  const { file_bytes, device_bytes } = json(["info", path]).model;
  assert.ok(file_bytes > 128 * MIB);
  const { before, grown } = await growth(path);
  assert.ok(before > device_bytes, "the device's memory, the process's own here, is resident before the weights come");
  assert.ok(grown < 64 * MIB, `the process grew by ${(grown / MIB).toFixed(1)} MiB while ${(file_bytes / MIB).toFixed(1)} MiB of weights went through it`);
});

// ---- main

const wanted = process.argv.slice(2);
const counts = { ok: 0, FAILED: 0, skipped: 0 };
mkdirSync(scratch, { recursive: true });
for (const { name, run } of tests) {
  if (wanted.length && !wanted.some(w => name.startsWith(w))) continue;
  const begin = performance.now();
  let result = "ok";
  let note = "";
  try {
    await run();
  } catch (e) {
    result = e instanceof Skip ? "skipped" : "FAILED";
    note = e instanceof Skip ? `: ${e.message}` : `\n${e.stack}`;
  }
  counts[result]++;
  console.log(`${result.padEnd(7)} cli.${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)${note}`);
}
rmSync(scratch, { recursive: true, force: true });
console.log(`${counts.ok} passed, ${counts.FAILED} failed, ${counts.skipped} skipped`);
process.exitCode = counts.FAILED ? 1 : 0;
