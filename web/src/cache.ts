// Downloaded models, kept in the origin's private file system. The record beside a file is written last, so a file without one, or of
// another size, is the rest of an interrupted download and counts as absent. Whatever goes wrong here, the load goes on without a cache.

import { FOLDER, key, removeCached } from "./cache_folder.js";
import { isPage, versionOf, type Version } from "./download.js";

const HEADROOM = 64 << 20; // bytes that stay free for the page's other data
const REVALIDATE_MS = 4000;

interface Entry { url: string; size: number; version: Version }

export interface CacheWriter {
  write(bytes: Uint8Array): void;
  commit(version: Version): Promise<void>;
  discard(): Promise<void>;
}

async function folder(): Promise<FileSystemDirectoryHandle | null> {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch { // no such API, or storage is blocked
    return null;
  }
}

/** The whole file of an earlier download, unless the server says that it has another one now. */
export async function findCached(url: string, signal: AbortSignal): Promise<File | null> {
  try {
    const dir = await folder();
    if (!dir) return null;
    const name = await key(url);
    const record = await (await dir.getFileHandle(name + ".json")).getFile();
    const entry = JSON.parse(await record.text()) as Entry;
    const file = await (await dir.getFileHandle(name + ".gguf")).getFile();
    if (entry.url === url && file.size === entry.size && file.size > 0 && await current(url, entry.version, signal)) return file;
  } catch { // no entry, or a broken one
    if (signal.aborted) return null;
  }
  await removeCached(url);
  return null;
}

/** Whether the server's file is still the cached one. Without an answer it is taken to be: the page may be offline. */
async function current(url: string, version: Version, signal: AbortSignal): Promise<boolean> {
  let response: Response;
  try {
    response = await fetch(url, { method: "HEAD", cache: "no-cache", signal: AbortSignal.any([signal, AbortSignal.timeout(REVALIDATE_MS)]) });
  } catch {
    return true;
  }
  if (response.status === 404 || response.status === 410) return false;
  if (!response.ok || isPage(response)) return true; // a server that knows no HEAD, or is in trouble; a login page in between
  const now = versionOf(response);
  if (now.etag && version.etag) return now.etag === version.etag;
  if (now.modified && version.modified && now.modified !== version.modified) return false;
  return !now.size || !version.size || now.size === version.size;
}

/** Deletes what interrupted downloads left: files without a record. Those that another tab is writing are locked and stay. */
async function sweep(dir: FileSystemDirectoryHandle): Promise<void> {
  const names = new Set<string>();
  for await (const name of dir.keys()) names.add(name);
  for (const name of names)
    if (name.endsWith(".gguf") && !names.has(name.replace(/gguf$/, "json"))) await dir.removeEntry(name).catch(() => undefined);
}

/** A place for a download of `size` bytes (0: unknown, then it is tried); null if there is no room or no such API. */
export async function cacheWriter(url: string, size: number): Promise<CacheWriter | null> {
  try {
    const dir = await folder();
    if (!dir) return null;
    await removeCached(url);
    await sweep(dir);
    const { quota = 0, usage = 0 } = await navigator.storage.estimate();
    if (quota - usage < size + HEADROOM) return null;
    const name = await key(url);
    const handle = await (await dir.getFileHandle(name + ".gguf", { create: true })).createSyncAccessHandle(); // throws if another tab is writing it
    return writer(dir, name, url, handle);
  } catch {
    return null;
  }
}

function writer(dir: FileSystemDirectoryHandle, name: string, url: string, handle: FileSystemSyncAccessHandle): CacheWriter {
  let at = 0, broken = false, closed = false;
  const close = () => {
    if (!closed) handle.close();
    closed = true;
  };
  const discard = async () => {
    close();
    await removeCached(url);
  };
  return {
    discard,
    write(bytes) {
      if (broken || closed) return;
      try {
        const written = handle.write(bytes as Uint8Array<ArrayBuffer>, { at });
        at += written;
        broken = written < bytes.length;
      } catch { // the disk filled up after all
        broken = true;
      }
    },
    async commit(version) {
      try {
        if (closed) return;
        if (broken) return await discard();
        handle.flush();
        close();
        const record = await (await dir.getFileHandle(name + ".json", { create: true })).createSyncAccessHandle();
        record.truncate(0);
        record.write(new TextEncoder().encode(JSON.stringify({ url, size: at, version } satisfies Entry)));
        record.close();
      } catch {
        await discard().catch(() => undefined);
      }
    },
  };
}
