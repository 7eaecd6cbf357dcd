// Serves the demo page for your own browser: node tools/serve.mjs --model PATH|URL [--port N] [--host NAME]; make serve says PORT=N for --port N.

import { fileURLToPath } from "node:url";
import { parseArgs, port } from "./args.mjs";
import { isUrl, startServer } from "./server.mjs";

const usage = "usage: serve.mjs --model PATH|URL [--port N] [--host NAME]";
const args = parseArgs(process.argv.slice(2), { model: String, port, host: String }, usage);
try {
  const { url } = await startServer({
    root: fileURLToPath(new URL("../dist", import.meta.url)), model: args.model, port: args.port ?? 8080, host: args.host ?? "127.0.0.1",
  });
  console.log(`Forerun's demo page: ${url}  (Ctrl-C ends it)`);
  if (args.model) console.log(`model: ${args.model}${isUrl(args.model) ? ", fetched by the browser" : ""}`);
} catch (e) {
  console.error(`serve: ${e.message}`);
  process.exit(1);
}
