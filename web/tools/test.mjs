// Runs test/*.test.mjs, one file after the other, and prints a line for each test and a last line that counts them.
// node tools/test.mjs [PART-OF-A-FILE-NAME]...

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "node:test";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../test", import.meta.url));
const wanted = process.argv.slice(2);
const files = readdirSync(folder).filter(name => name.endsWith(".test.mjs") && (!wanted.length || wanted.some(part => name.includes(part)))).sort()
  .map(name => join(folder, name));
const counts = { passed: 0, failed: 0, skipped: 0 };

function cause(error) {
  const inner = error?.cause ?? error;
  return String(inner?.stack ?? inner?.message ?? inner).split("\n").slice(0, 8).join("\n    ");
}

const isFile = event => files.includes(event.name); // a file that could not be run counts as a failed test of that name
const stream = run({ files, concurrency: 1, timeout: 900_000 });
stream.on("test:pass", event => {
  if (isFile(event)) return;
  if (event.skip !== undefined) {
    counts.skipped++;
    console.log(`skipped ${event.name}: ${event.skip}`);
  } else {
    counts.passed++;
    console.log(`ok      ${event.name}`);
  }
});
stream.on("test:fail", event => {
  if (isFile(event) && event.details.error?.failureType === "subtestsFailed") return;
  counts.failed++;
  console.log(`FAILED  ${event.name}\n    ${cause(event.details.error)}`);
});
stream.on("end", () => {
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  process.exitCode = counts.failed || !counts.passed ? 1 : 0;
});
stream.resume();
