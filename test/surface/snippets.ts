/**
 * The TypeScript in README and guides, as modules that a compiler takes.
 *
 * A block marked `ts` is a module as it stands. One marked `ts run-file` holds keys of a run file and is put into a `defineRun`. What a
 * block takes for granted is declared in a comment before it, which readers do not see: <!-- given: declare const folder: string; -->
 */
import { readdirSync, readFileSync } from "node:fs";

export interface Snippet {
  /** A path in the folder of the document, where relative imports and packages resolve as for the examples. */
  readonly path: string;
  /** As long as the document up to the end of the block, so that errors name its lines. */
  readonly module: string;
  /** What a reader sees. */
  readonly shown: string;
}

const BLOCK = /(?:<!-- given:([\s\S]*?)-->\n+)?^```ts([^\n]*)\n([\s\S]*?)^```$/gm;

export const documents: readonly string[] = [
  "README.md",
  ...readdirSync("docs/guides").map((name) => `docs/guides/${name}`),
];

export function readSnippets(document: string): readonly Snippet[] {
  const text = readFileSync(document, "utf8");
  return [...text.matchAll(BLOCK)].map(({ index, 0: whole, 1: given = "", 2: mark = "", 3: shown = "" }) => {
    const start = index + whole.lastIndexOf(shown);
    const line = text.slice(0, start).split("\n").length;
    const preamble = `export {}; ${given.replaceAll("\n", " ")}`;
    return {
      path: `${document.replace(/\.md$/, "")}.${line}.ts`,
      module: `${preamble}${"\n".repeat(line - 1)}${wrap(shown, mark.trim())}`,
      shown,
    };
  });
}

/** Keeps the first line of the block on its line. */
function wrap(block: string, mark: string): string {
  if (mark === "") return block;
  if (mark !== "run-file") throw new Error(`A block is marked "ts ${mark}". Known are: ts, ts run-file.`);
  return `(await import("reroll")).defineRun({ ...{ model: { preset: "nano" }, training: { optimizer: { lr: 1e-3 } } }, ${block} });\n`;
}
