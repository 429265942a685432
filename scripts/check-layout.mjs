/**
 * Checks the layout of src: who imports whom, names, sizes, exports that nobody imports, and what stages may not touch (console,
 * clock, chance).
 *
 * node scripts/check-layout.mjs [root]
 * Prints one line per violation, `file:line what is wrong, what to do`, and fails when there is one.
 */
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import * as rules from "./check-layout/rules.mjs";
import { blankSource, findImports, lineAt } from "./check-layout/scan-source.mjs";
import { checkUnusedExports } from "./check-layout/unused-exports.mjs";
import { listFiles } from "./setup/stamp.mjs";

const root = process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url));
const files = listFiles(join(root, "src"))
  .filter((file) => !posix.basename(file).startsWith("."))
  .map((file) => `src/${file}`);
const sources = files.filter((file) => file.endsWith(".ts")).map(readSource);
const users = ["test", "bench", "scripts", "examples", "dashboard"].flatMap((folder) =>
  listFiles(join(root, folder))
    .filter((file) => /\.(?:tsx?|mjs)$/.test(file))
    .map((file) => readSource(`${folder}/${file}`)),
);

const violations = [
  ...rules.checkTable(),
  ...rules.checkFolders(sources),
  ...rules.checkDirection(sources),
  ...rules.checkFolderCycles(sources),
  ...rules.checkFileCycles(sources),
  ...rules.checkSpecifiers(sources),
  ...rules.checkNames(files),
  ...rules.checkLength(sources),
  ...rules.checkConsole(sources),
  ...rules.checkDefaultExports(sources),
  ...rules.checkRandomness(sources),
  ...rules.checkClock(sources),
  ...checkUnusedExports(sources, users),
].sort((left, right) => (left.file === right.file ? left.line - right.line : left.file < right.file ? -1 : 1));

for (const { file, line, text } of violations) console.error(`${file}:${line} ${text}`);
if (violations.length === 0) console.log(`layout: ${sources.length} files are where they belong`);
else console.error(`layout: ${violations.length} ${violations.length === 1 ? "violation" : "violations"}`);
process.exitCode = violations.length === 0 ? 0 : 1;

function readSource(file) {
  const text = readFileSync(join(root, file), "utf8");
  const code = blankSource(text);
  const imports = findImports(text, code)
    .filter(({ specifier }) => specifier.startsWith("."))
    .map(({ specifier, position, isTypeOnly, names }) => ({
      specifier,
      isTypeOnly,
      names,
      target: posix.join(posix.dirname(file), specifier),
      line: lineAt(text, position),
    }));
  const [, folder, ...rest] = file.split("/");
  // An entry point, src/index.ts or src/<folder>/index.ts, belongs to no folder: it collects names for users of the package.
  const isEntryPoint = rest.length === 0 || (rest.length === 1 && rest[0] === "index.ts");
  return { file, folder: isEntryPoint ? "" : folder, text, code, imports };
}
