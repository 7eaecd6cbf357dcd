// What mode `adaptive` has learnt of a device, kept beside the models for the next visit. Whatever goes wrong here, it is learnt again.

import { FOLDER } from "./cache_folder.js";

/** The bytes kept under a name; null if there are none. */
export async function findCosts(name: string): Promise<Uint8Array | null> {
  try {
    const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER);
    const file = await (await dir.getFileHandle(name + ".costs")).getFile();
    return new Uint8Array(await file.arrayBuffer());
  } catch { // nothing there, or no such API
    return null;
  }
}

export async function keepCosts(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  try {
    const dir = await (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
    const file = await (await dir.getFileHandle(name + ".costs", { create: true })).createSyncAccessHandle(); // throws if another tab is writing it
    try {
      file.truncate(0);
      file.write(bytes, { at: 0 });
    } finally {
      file.close();
    }
  } catch { // no room, or storage is blocked
  }
}
