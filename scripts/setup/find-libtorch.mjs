/**
 * Finds the libtorch to build against: REROLL_LIBTORCH, then the active Python's torch, then the system package.
 *
 * Out: `{ libtorch, looked }`. `libtorch` is null when there is none; `looked` says where we looked and what was there.
 * A REROLL_LIBTORCH that does not hold one is an error: who names a folder does not want another one.
 */
import { spawnSync } from "node:child_process";
import { basename, dirname, resolve } from "node:path";
import { findExecutable } from "./find-executable.mjs";
import { readLibtorch } from "./read-libtorch.mjs";
import { SetupError } from "./setup-error.mjs";

const SYSTEM_PREFIXES = process.platform === "darwin" ? ["/opt/homebrew", "/usr/local"] : ["/usr", "/usr/local"];

export function findLibtorch({ env = process.env, askPython = askActivePython, prefixes = SYSTEM_PREFIXES } = {}) {
  if (env.REROLL_LIBTORCH) return { libtorch: readNamedFolder(env.REROLL_LIBTORCH), looked: [] };
  const looked = ["REROLL_LIBTORCH: not set"];
  const { root, note } = askPython(env);
  if (root === null) looked.push(note);
  const candidates = [
    ...(root === null ? [] : [{ root, origin: "python" }]),
    ...prefixes.map((prefix) => ({ root: prefix, origin: "system" })),
  ];
  for (const { root: folder, origin } of candidates) {
    const { libtorch, problem } = readLibtorch(folder);
    if (libtorch) return { libtorch: { origin, ...libtorch }, looked };
    looked.push(`${folder}: ${problem}`);
  }
  return { libtorch: null, looked };
}

function readNamedFolder(folder) {
  const { libtorch, problem } = readLibtorch(resolve(folder));
  if (libtorch) return { origin: "REROLL_LIBTORCH", ...libtorch };
  throw new SetupError(
    `REROLL_LIBTORCH does not name a libtorch: ${folder}: ${problem}. It must be a folder that holds include/ and lib/, ` +
      "a Python torch package, or a prefix such as /usr. Correct it, or unset it to let the setup search.",
  );
}

// The current folder is taken out of the path: a folder named torch there is not the package.
const PYTHON_QUESTION = `
import importlib.util, json, sys
sys.path = [folder for folder in sys.path if folder]
spec = importlib.util.find_spec("torch")
print(json.dumps({"python": sys.executable, "found": spec is not None, "origin": spec and spec.origin}))
`;

/** Asks the Python in PATH where its torch lies, without importing it (that takes seconds). */
export function askActivePython(env = process.env) {
  const python = findExecutable("python3", env) ?? findExecutable("python", env);
  if (python === null) return { root: null, note: "Python: neither python3 nor python is in PATH" };
  const answer = spawnSync(python, ["-c", PYTHON_QUESTION], { env, encoding: "utf8", timeout: 20_000 });
  if (answer.status !== 0) return { root: null, note: `${python}: it did not run (${lastLine(answer)})` };
  const { python: executable, found, origin } = JSON.parse(lastLine(answer));
  if (!found) return { root: null, note: `${executable}: it has no package named torch` };
  // A folder without __init__.py is a namespace package to Python: any folder named torch in its path makes one.
  if (origin === null || basename(origin) !== "__init__.py") {
    return { root: null, note: `${executable}: its torch is a plain folder or file, not the PyTorch package` };
  }
  return { root: dirname(origin), note: null };
}

function lastLine({ stdout, stderr, error }) {
  const text = (stdout || stderr || "").trim();
  return text === "" ? (error?.message ?? "no output") : text.slice(text.lastIndexOf("\n") + 1);
}
