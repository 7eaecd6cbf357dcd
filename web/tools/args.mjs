// Command lines of the tools: --name VALUE, --flag. Anything else ends the program with status 2 and one line.

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
    else values[name] = known[name] === Number ? number(name, argv[i], usage) : argv[i];
  }
  return values;
}

function number(name, text, usage) {
  const n = Number(text);
  if (!Number.isInteger(n) || n < 0) bad(`--${name} takes a whole number, not "${text}"`, usage);
  return n;
}

function bad(message, usage) {
  console.error(`${message}; ${usage.split("\n")[0]}`);
  process.exit(2);
}
