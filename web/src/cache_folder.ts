// Where cached models lie, for the worker that writes them (cache.ts) and the page that may delete them.

export const FOLDER = "forerun-models";

/** A file name for a URL. */
export async function key(url: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url)));
  return Array.from(digest.subarray(0, 16), b => b.toString(16).padStart(2, "0")).join("");
}

/** Forgets one model, or all of them. */
export async function removeCached(url?: string): Promise<void> {
  try {
    const root = await navigator.storage.getDirectory();
    if (url === undefined) return await root.removeEntry(FOLDER, { recursive: true });
    const dir = await root.getDirectoryHandle(FOLDER);
    const name = await key(url);
    await dir.removeEntry(name + ".json").catch(() => undefined); // the record first: without it the file counts for nothing
    await dir.removeEntry(name + ".gguf").catch(() => undefined);
  } catch { // there was nothing
  }
}
