// Messages as text, and the page's text among them.

import { ArgumentError } from "./errors.js";
import type { ChatMessage } from "./types.js";

const EDGES = /^[ \t\r\n\f\v]+|[ \t\r\n\f\v]+$/g; // as the command line's --page, so that both make the same prompt

/** Checks that a value is text that C can take. @internal */
export function text(what: string, value: unknown): string {
  if (typeof value !== "string") throw new ArgumentError(`${what} must be text, not ${value === null ? "null" : typeof value}`);
  if (value.includes("\0")) throw new ArgumentError(`${what} holds a NUL character: remove it`);
  return value;
}

/** The text of a message, also where it comes in parts. @internal */
export function content(message: ChatMessage, where: string): string {
  if (!Array.isArray(message.content)) return text(`${where}.content`, message.content);
  return message.content.map((part, i) => {
    if (part?.type !== "text") throw new ArgumentError(`${where}.content[${i}] is "${part?.type}": only text is supported`);
    return text(`${where}.content[${i}].text`, part.text);
  }).join("");
}

/** The messages with the page's text in front of the last user message: `page`, an empty line, then what the user wrote. Where there is
 * no user message, the page becomes one. Several pages are joined the same way. */
export function withPage(messages: readonly ChatMessage[], page: string | readonly string[]): ChatMessage[] {
  const pages = [page].flat().map(p => p.replace(EDGES, "")).filter(Boolean);
  if (!pages.length) return [...messages];
  const last = messages.findLastIndex(m => m.role === "user");
  if (last < 0) return [...messages, { role: "user", content: pages.join("\n\n") }];
  return messages.map((m, i) => (i === last ? { role: m.role, content: [...pages, content(m, `"messages"[${i}]`)].join("\n\n") } : m));
}
