/**
 * Exports that nobody imports: a name leaves its file only when another file asks for it.
 *
 * A use is an import in any other file of src, or in tests, benchmarks, scripts, examples or the dashboard. The test beside a file counts
 * only for what the file itself uses too: a piece may be shown to a test, but a test keeps nothing alive. What entry points collect is
 * used. An option type that no other file names stays in its file unexported: its function can be called without it.
 */
import { lineAt } from "./scan-source.mjs";

const DECLARATION =
  /^export\s+(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:const|let|function\*?|class|interface|type)\s+([\w$]+)/gm;
/** Checks `sources`; `users` are the files outside of src that may import from them, of the same shape. */
export function checkUnusedExports(sources, users) {
  const used = usedNames([...sources, ...users]);
  return sources
    .filter(({ file, folder }) => folder !== "" && !file.endsWith(".test.ts") && !file.includes("/generated/"))
    .flatMap(({ file, code }) =>
      [...code.matchAll(DECLARATION)]
        .filter(([, name]) => {
          if (used.has(`${file} *`) || used.has(`${file} ${name}`)) return false;
          const isUsedHere = code.match(new RegExp(`(?<![\\w$])${name}(?![\\w$])`, "g")).length > 1;
          return !(isUsedHere && used.has(`${file} ${name} in its test`));
        })
        .map(({ index, 1: name }) => ({
          file,
          line: lineAt(code, index),
          text: `nothing imports ${name}. Take its "export" away, use it where it was meant to be used, or remove it.`,
        })),
    );
}

/** Each as "file name", or "file *" for all that the file exports; "file name in its test" for the test beside it. */
function usedNames(files) {
  const uses = files.flatMap(({ file, imports }) =>
    imports.flatMap(({ target, names }) => {
      const isItsTest = target.replace(/\.ts$/, ".test.ts") === file;
      return (names ?? ["*"]).map((name) => `${target} ${name}${isItsTest ? " in its test" : ""}`);
    }),
  );
  return new Set(uses);
}
