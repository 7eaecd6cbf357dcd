// The demo page. It uses the package as any page would (index.js is not bundled in), and announces what happens as "forerun" events on
// window, which tools/demo.mjs listens to.

import { DeviceLostError, DisposedError, Forerun, withPage, type ChatMessage, type ModelSource, type Mode, type Progress, type Stats } from "../src/index.js";

const $ = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const ui = {
  adapter: $("adapter"), banner: $("banner"), theme: $("theme"), announce: $("announce"), drop: $("drop"),
  model: $<HTMLFormElement>("model"), modelName: $("model-name"), served: $("served"), pickUrl: $("pick-url"), pickFile: $("pick-file"),
  url: $<HTMLInputElement>("url"), file: $<HTMLInputElement>("file"), load: $<HTMLButtonElement>("load"),
  loading: $("loading"), phases: $("phases"), bar: $<HTMLProgressElement>("bar"), progressText: $("progress-text"),
  page: $<HTMLTextAreaElement>("page"), words: $("words"), summarise: $<HTMLButtonElement>("summarise"), bullets: $<HTMLButtonElement>("bullets"), ask: $<HTMLButtonElement>("ask"),
  length: $<HTMLSelectElement>("length"), mode: $<HTMLSelectElement>("mode"), clear: $<HTMLButtonElement>("clear"),
  chat: $("chat"), hint: $("hint"), hintTitle: $("hint-title"), statsCard: $("stats-card"), prompt: $<HTMLFormElement>("prompt"), input: $<HTMLTextAreaElement>("input"),
  send: $<HTMLButtonElement>("send"), stop: $<HTMLButtonElement>("stop"), stats: $("stats"), statsModel: $("stats-model"),
};
const TASKS = {
  summarise: "Summarise the text above in a few sentences.",
  bullets: "List the most important points of the text above as short bullet points.",
};

type State = "idle" | "loading" | "ready" | "busy";
interface Served { model: string; name: string }

let engine: Forerun | null = null;
let served: Served = { model: "model.gguf", name: "model.gguf" };
let abort: AbortController | null = null; // of the load or the answer under way
let history: ChatMessage[] = [];
let pageInHistory = ""; // the text that the conversation already holds, so that it is sent (and computed) once
let adapterName = "";

function tell(detail: Record<string, unknown>): void {
  window.dispatchEvent(new CustomEvent("forerun", { detail }));
}

function setState(state: State): void {
  document.documentElement.dataset.state = state;
  const ready = state === "ready", busy = state === "busy";
  for (const button of [ui.summarise, ui.bullets, ui.ask, ui.send]) button.disabled = !ready;
  ui.input.disabled = !ready && !busy;
  ui.input.placeholder = engine ? "Write a message" : "Load a model to begin";
  ui.send.hidden = busy;
  ui.stop.hidden = !busy;
  ui.load.disabled = busy;
  ui.load.textContent = state === "loading" ? "Cancel" : engine ? "Load another model" : "Load the model";
  ui.load.classList.toggle("primary", !engine && state !== "loading");
  ui.summarise.classList.toggle("primary", engine !== null);
  ui.statsCard.hidden = !engine;
  ui.hintTitle.textContent = engine ? "Pick a task for the text, or write a message." : "Load the model, then pick a task.";
  ui.clear.disabled = busy;
}

function showError(message: string): void {
  ui.banner.textContent = message;
  ui.banner.hidden = false;
  tell({ type: "error", message });
}

// ---- numbers for people

const megabytes = (n: number) => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} MB`);
const duration = (ms: number) => (ms >= 10_000 ? `${(ms / 1000).toFixed(1)} s` : ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(ms < 10 ? 2 : 0)} ms`);
const whole = (n: number) => Math.round(n).toLocaleString("en");

const modeLine = (s: Stats) => (s.mode === "greedy" ? s.mode : s.mode !== "tree" ? `${s.mode}, window ${s.window}` : `tree of ${s.width}, window ${s.window}`);

function showStats(s: Stats | null, info: Awaited<ReturnType<Forerun["info"]>>): void {
  const cells: [string, string, string?][] = [
    ["Adapter", info.adapter.name, "wide"],
    ["Load", s && s.load_ms ? duration(s.load_ms) + (info.cached ? " (cached)" : "") : "-"],
    ["Compile", s && s.compile_ms ? duration(s.compile_ms) : "-"],
    ["Prompt", s?.prompt_tokens ? `${whole(s.prompt_tokens)} tokens` + (s.cached_tokens ? `, ${whole(s.cached_tokens)} reused` : "") : "-", "wide"],
    ["Prefill", s?.prefill_tokens_per_second ? `${whole(s.prefill_tokens_per_second)} tokens/s` : "-"],
    ["First token", s?.first_token_ms ? duration(s.first_token_ms) : "-"],
    ["Per token", s?.ms_per_token ? `${s.ms_per_token.toFixed(2)} ms` : "-"],
    ["Speed", s?.tokens_per_second ? `${s.tokens_per_second.toFixed(1)} tokens/s` : "-"],
    ["Answer", s?.completion_tokens ? `${whole(s.completion_tokens)} tokens` : "-"],
    ["Mode", s?.completion_tokens ? modeLine(s) : "-"],
    ...((s?.mode === "tree" || s?.mode === "adaptive") && s.completion_tokens ? [["Tokens per step", s.tau.toFixed(2)], ["Memory", `${whole(s.memory_tokens)} tokens`]] as [string, string][] : []),
    ["Dispatches per step", s?.dispatches_per_step ? whole(s.dispatches_per_step) : "-"],
    ["GPU memory", info.device_bytes ? megabytes(info.device_bytes) : "-"],
  ];
  ui.stats.replaceChildren(...cells.map(([name, value, kind]) => {
    const cell = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    if (kind) cell.className = kind;
    dt.textContent = name;
    dd.textContent = dd.title = value;
    cell.append(dt, dd);
    return cell;
  }));
}

// ---- the model

function chosenSource(): ModelSource | null {
  const kind = new FormData(ui.model).get("source");
  if (kind === "url") return ui.url.value.trim() || null;
  if (kind === "file") return ui.file.files?.[0] ?? null;
  return served.model;
}

function showSource(): void {
  const kind = new FormData(ui.model).get("source");
  ui.served.hidden = kind !== "served";
  ui.pickUrl.hidden = kind !== "url";
  ui.pickFile.hidden = kind !== "file";
}

function progressLine(p: Progress, since: number): string {
  const seconds = (performance.now() - since) / 1000;
  const rate = p.phase === "download" && seconds > 0.5 ? `, ${megabytes(p.loaded / seconds)}/s` : "";
  switch (p.phase) {
    case "start": return "Starting WebAssembly and the GPU";
    case "download": return `Downloading ${megabytes(p.loaded)}${p.total ? ` of ${megabytes(p.total)}` : ""}${rate}`;
    case "read": return `Reading ${megabytes(p.loaded)}${p.total ? ` of ${megabytes(p.total)}` : ""}`;
    case "compile": return "Compiling the kernels";
    case "ready": return `Ready: ${megabytes(p.total)} in ${duration(performance.now() - since)}`;
  }
}

function showProgress(p: Progress, since: number): void {
  ui.bar.value = p.ratio;
  ui.progressText.textContent = progressLine(p, since);
  const order = ["start", "bytes", "compile", "ready"];
  const now = order.indexOf(p.phase === "download" || p.phase === "read" ? "bytes" : p.phase);
  for (const [i, item] of [...ui.phases.children].entries()) item.className = i < now || p.phase === "ready" ? "past" : i === now ? "now" : "";
}

async function load(source: ModelSource): Promise<void> {
  const since = performance.now();
  ui.banner.hidden = true;
  ui.loading.hidden = false;
  const before = engine;
  engine = null;
  clearChat();
  setState("loading");
  abort = new AbortController();
  try {
    await before?.dispose();
    engine = await Forerun.load(source, {
      signal: abort.signal,
      onProgress: p => {
        showProgress(p, since);
        tell({ type: "progress", ...p });
      },
    });
    const [info, stats] = await Promise.all([engine.info(), engine.stats()]);
    adapterName = info.adapter.name;
    ui.modelName.textContent = ui.statsModel.textContent = [info.name, info.quantisation].filter(Boolean).join(", ");
    if (info.adapter.isCpu && ui.length.value === "256") ui.length.value = "64"; // a software adapter takes half a second per token
    showStats(stats, info);
    setState("ready");
    ui.announce.textContent = "The model is ready";
    tell({ type: "loaded", info, stats, ms: performance.now() - since });
  } catch (e) {
    ui.loading.hidden = true;
    setState("idle");
    if ((e as Error).name !== "AbortError") showError((e as Error).message);
  } finally {
    abort = null;
  }
}

// ---- the conversation

function clearChat(): void {
  history = [];
  pageInHistory = "";
  ui.chat.replaceChildren(ui.hint);
  ui.hint.hidden = false;
}

function addMessage(kind: "user" | "assistant" | "error", text: string): HTMLElement {
  ui.hint.hidden = true;
  const message = document.createElement("div");
  message.className = `message ${kind}`;
  message.textContent = text; // text, never HTML: what a model writes is not to be trusted
  ui.chat.append(message);
  ui.chat.scrollTop = ui.chat.scrollHeight;
  return message;
}

function note(message: HTMLElement, text: string, className: string): void {
  const span = document.createElement("span");
  span.className = className;
  span.textContent = text;
  message.append(span);
  ui.chat.scrollTop = ui.chat.scrollHeight;
}

async function say(question: string): Promise<void> {
  if (!engine) return;
  const page = ui.page.value.trim();
  const fresh = page !== "" && page !== pageInHistory;
  const message = addMessage("user", question);
  if (fresh) note(message, "with the text", "with-page");
  const asked: ChatMessage = { role: "user", content: question };
  const messages = [...history, ...(fresh ? withPage([asked], page) : [asked])];
  setState("busy");
  abort = new AbortController();
  const answer = addMessage("assistant", "");
  answer.classList.add("writing");
  try {
    await stream(messages, answer, abort.signal);
    history = [...messages, { role: "assistant", content: answer.firstChild?.nodeValue ?? "" }];
    if (fresh) pageInHistory = page;
  } catch (e) {
    answer.remove();
    addMessage("error", (e as Error).message);
    tell({ type: "error", message: (e as Error).message });
    if (await isGone(engine, e as Error)) {
      void engine.dispose();
      engine = null;
    }
  } finally {
    answer.classList.remove("writing");
    abort = null;
    setState(engine ? "ready" : "idle");
  }
}

/** Whether an engine can answer no more, so that the model has to be loaded again. */
async function isGone(engine: Forerun, error: Error): Promise<boolean> {
  if (error instanceof DeviceLostError || error instanceof DisposedError) return true;
  return engine.info().then(() => false, () => true);
}

async function stream(messages: ChatMessage[], answer: HTMLElement, signal: AbortSignal): Promise<void> {
  const text = document.createTextNode("");
  answer.append(text);
  const chunks = await engine!.chat.completions.create({
    messages, signal, stream: true, max_tokens: Number(ui.length.value), mode: ui.mode.value as Mode,
  });
  let reason = "";
  for await (const chunk of chunks) {
    const choice = chunk.choices[0];
    const piece = choice?.delta.content;
    reason = choice?.finish_reason ?? reason;
    if (!piece) continue;
    const following = ui.chat.scrollHeight - ui.chat.scrollTop - ui.chat.clientHeight < 60; // leave a reader who scrolled up alone
    text.nodeValue += piece;
    if (following) ui.chat.scrollTop = ui.chat.scrollHeight;
    tell({ type: "text", text: piece });
  }
  const [info, stats] = await Promise.all([engine!.info(), engine!.stats()]);
  showStats(stats, info);
  if (reason === "abort") note(answer, "Stopped.", "note");
  if (reason === "length") note(answer, "Cut at the chosen length.", "note");
  ui.announce.textContent = text.nodeValue ?? "";
  tell({ type: "done", reason, text: text.nodeValue, info, stats });
}

function task(prompt: string): void {
  clearChat(); // a task is a conversation of its own; the engine keeps what the two have in common
  void say(prompt);
}

// ---- wiring

function wire(): void {
  ui.model.addEventListener("change", showSource);
  ui.model.addEventListener("submit", event => {
    event.preventDefault();
    if (document.documentElement.dataset.state === "loading") return abort?.abort();
    const source = chosenSource();
    if (source) void load(source);
    else showError("Choose a model first: an address or a file.");
  });
  ui.summarise.addEventListener("click", () => task(TASKS.summarise));
  ui.bullets.addEventListener("click", () => task(TASKS.bullets));
  ui.ask.addEventListener("click", () => ui.input.focus());
  ui.clear.addEventListener("click", clearChat);
  ui.stop.addEventListener("click", () => abort?.abort());
  ui.page.addEventListener("input", countWords);
  ui.prompt.addEventListener("submit", event => {
    event.preventDefault();
    const question = ui.input.value.trim();
    if (!question || document.documentElement.dataset.state !== "ready") return;
    ui.input.value = "";
    fitInput();
    void say(question);
  });
  ui.input.addEventListener("input", fitInput);
  ui.input.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ui.prompt.requestSubmit();
  });
  ui.theme.addEventListener("click", switchTheme);
  wireDrop();
  addEventListener("pagehide", event => {
    if (!event.persisted) void engine?.dispose(); // else the page may come back as it is
  });
}

function fitInput(): void {
  ui.input.style.height = "auto";
  ui.input.style.height = `${ui.input.scrollHeight + 2}px`;
}

function countWords(): void {
  ui.words.textContent = `${whole(ui.page.value.split(/\s+/).filter(Boolean).length)} words`;
}

function switchTheme(): void {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch { // storage is blocked: the choice lasts as long as the page
  }
}

function wireDrop(): void {
  let depth = 0;
  const show = (on: boolean) => { ui.drop.hidden = !on; };
  addEventListener("dragenter", event => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    depth++;
    show(true);
  });
  addEventListener("dragleave", () => {
    if (depth && !--depth) show(false);
  });
  addEventListener("dragover", event => event.preventDefault());
  addEventListener("drop", event => {
    event.preventDefault();
    depth = 0;
    show(false);
    const file = event.dataTransfer?.files[0];
    if (!file || document.documentElement.dataset.state === "busy" || document.documentElement.dataset.state === "loading") return;
    (ui.model.elements.namedItem("source") as RadioNodeList).value = "file";
    showSource();
    ui.file.files = event.dataTransfer!.files;
    void load(file);
  });
}

async function showSupport(): Promise<void> {
  const { supported, reason, adapter } = await Forerun.checkSupport();
  ui.adapter.textContent = adapter ? adapter.name + (adapter.isCpu ? " (CPU)" : "") : "no WebGPU";
  ui.adapter.title = adapterName = adapter?.name ?? reason;
  ui.adapter.classList.add(!supported ? "bad" : adapter?.isCpu ? "slow" : "good");
  if (supported) return;
  ui.load.disabled = true;
  showError(`This browser can't run the model: ${reason}`);
}

async function findServed(): Promise<void> {
  try { // written by tools/serve.mjs; a plain static host has none, and model.gguf beside the page is assumed
    served = await (await fetch("demo.json")).json() as Served;
  } catch { // as above
  }
  const asked = new URLSearchParams(location.search).get("model");
  if (asked) served = { model: asked, name: asked.split("/").at(-1)! };
  ui.served.textContent = served.name;
}

async function start(): Promise<void> {
  try {
    const theme = localStorage.getItem("theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch { // storage is blocked
  }
  wire();
  setState("idle");
  showSource();
  await Promise.all([
    showSupport(), findServed(),
    fetch("article.txt").then(async r => { ui.page.value ||= (await r.text()).trim(); }).catch(() => undefined),
  ]);
  countWords();
  tell({ type: "open", adapter: adapterName });
  document.documentElement.dataset.open = "true";
}

void start();
