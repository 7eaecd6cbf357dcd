// What the pages that measure share: parameters out of the address, a prompt, and where results go.

import type { Forerun } from "../src/index.js";

const out = document.getElementById("out")!;
export const query = new URLSearchParams(location.search);

export async function say(path: string, text: string): Promise<void> {
  out.append(`${text}\n`);
  await fetch(path, { method: "POST", body: text }).catch(() => undefined); // nobody listens: the page shows it
}

export const number = (name: string, usual: number) => Number(query.get(name) ?? usual);
export const round = (n: number) => Number(n.toFixed(4));

/** Ordinary tokens, the same as the native program's. */
export async function makePrompt(engine: Forerun, vocabulary: number, count: number): Promise<number[]> {
  const prompt: number[] = [];
  for (let state = 1; prompt.length < count;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const id = (state >>> 8) % vocabulary;
    if ((await engine.detokenize([id])) !== "") prompt.push(id);
  }
  return prompt;
}
