// Command lines of the tools: --name VALUE, --flag. Anything else ends the program with status 2 and one line. A type is Boolean (a flag),
// String, Number (a whole one, not negative), or a function of the text that throws what is wrong with it.

export function parseArgs(argv, known, usage) {
  const values = {};
  for (let i = 0; i < argv.length; i++) {
    const name = argv[i].startsWith("--") ? argv[i].slice(2) : "";
    if (name === "help") {
      console.log(usage);
      process.exit(0);
    }
    if (!(name in known)) bad(`unknown argument "${argv[i]}"`, usage);
    if (known[name] === Boolean) values[name] = true;
    else if (argv[++i] === undefined) bad(`--${name} needs a value`, usage);
    else {
      try {
        values[name] = (known[name] === Number ? number : known[name])(argv[i]);
      } catch (e) {
        bad(`--${name} takes ${e.message}, not "${argv[i]}"`, usage);
      }
    }
  }
  return values;
}

function number(text) {
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(Number(text))) throw new Error("a whole number");
  return Number(text);
}

/** A type of parseArgs(): where a server listens; 0 is a free port. */
export function port(text) {
  if (!/^\d+$/.test(text) || Number(text) > 65535) throw new Error("the number of a port, 0 to 65535");
  return Number(text);
}

function bad(message, usage) {
  console.error(`${message}; ${usage.split("\n")[0]}`);
  process.exit(2);
}
