// Progress that never falls, whatever the load goes through: a damaged cache entry makes it begin a second time.

import type { Progress } from "./types.js";

export function rising(tell: (progress: Progress) => void): (progress: Progress) => void {
  let ratio = 0;
  return progress => tell({ ...progress, ratio: ratio = Math.max(ratio, progress.ratio) });
}
