/**
 * The layout rules. Each takes the sources and returns violations `{ file, line, text }`.
 *
 * A source is `{ file, folder, text, code, imports }`: the path from the root, the first folder under src (empty for
 * entry points), the text, the text with comments and strings blanked, and the relative imports with their targets.
 */
import { findCycles } from "./find-cycles.mjs";
import { allowedImports, clockFiles, clockFolders, consolePlaces } from "./import-table.mjs";
import { lineAt } from "./scan-source.mjs";

const MAX_LINES = 500;
const TABLE = "scripts/check-layout/import-table.mjs";
const KEBAB_CASE = /^[a-z0-9]+(?:[-.][a-z0-9]+)*$/;
const EMPTY_NAME = /(?:^|-)(?:utils?|common|helpers?|misc)(?:\.|$)/;

export function checkTable() {
  const [cycle] = findCycles(new Map(Object.entries(allowedImports)));
  return cycle === undefined ? [] : [{ file: TABLE, line: 1, text: `the table has a cycle: ${arrows(cycle)}` }];
}

export function checkFolders(sources) {
  const unknown = new Map(
    sources
      .filter(({ folder }) => folder !== "" && !(folder in allowedImports))
      .map((source) => [source.folder, source]),
  );
  return [...unknown].map(([folder, { file }]) => ({
    file,
    line: 1,
    text: `src/${folder} is not a known folder. Put the file where it belongs, or add the folder to ${TABLE} with what it may import.`,
  }));
}

export function checkDirection(sources) {
  return crossFolderImports(sources)
    .filter(({ source, target }) => source.folder in allowedImports && !isAllowed(source.folder, target.folder))
    .map(({ source, target, line }) => ({
      file: source.file,
      line,
      text:
        target.folder === ""
          ? `${target.file} is for users of the package. Import the file that declares the name.`
          : `${source.folder} may not import ${target.folder} (${target.file}). It may import: ${allowedImports[source.folder].join(", ") || "nothing"}. Move what both need down, pass it in, or change ${TABLE} on purpose.`,
    }));
}

export function checkFolderCycles(sources) {
  const edges = crossFolderImports(sources).filter(
    ({ source, target }) => source.folder !== "" && target.folder !== "",
  );
  return findCycles(graphOf(edges.map(({ source, target }) => [source.folder, target.folder]))).map((cycle) => {
    const steps = cycle.map((from, index) => {
      const to = cycle[(index + 1) % cycle.length];
      return edges.find(({ source, target }) => source.folder === from && target.folder === to);
    });
    const example = steps.map(({ source, target, line }) => `${source.file}:${line} imports ${target.file}`).join(", ");
    return {
      file: steps[0].source.file,
      line: steps[0].line,
      text: `folders form a cycle: ${arrows(cycle)} (${example}). Turn one of the imports around.`,
    };
  });
}

/** Type-only imports do not count: they are gone when the files are loaded. Between folders they do. */
export function checkFileCycles(sources) {
  const edges = sources.flatMap(({ file, imports }) =>
    imports.filter(({ isTypeOnly }) => !isTypeOnly).map(({ target }) => [file, target]),
  );
  return findCycles(graphOf(edges)).map((cycle) => {
    const source = sources.find(({ file }) => file === cycle[0]);
    const { line } = source.imports.find(({ target, isTypeOnly }) => !isTypeOnly && target === (cycle[1] ?? cycle[0]));
    return {
      file: cycle[0],
      line,
      text: `files import each other: ${arrows(cycle)}. Move what they share to a file of its own.`,
    };
  });
}

export function checkSpecifiers(sources) {
  return sources.flatMap(({ file, imports }) =>
    imports.flatMap(({ specifier, target, line }) => {
      // Tests beside the code share contracts and fixtures that lie outside.
      if (!target.startsWith("src/") && !file.endsWith(".test.ts")) {
        return [{ file, line, text: `"${specifier}" leaves src. What src imports must lie in src.` }];
      }
      if (/\.(?:ts|json)$/.test(specifier)) return [];
      return [
        {
          file,
          line,
          text: `"${specifier}" must name the file with its ending, as in "${specifier.replace(/\.js$/, "")}.ts".`,
        },
      ];
    }),
  );
}

export function checkNames(files) {
  return files.flatMap((file) => {
    const parts = file.split("/").slice(1);
    const empty = parts.find((part) => EMPTY_NAME.test(part));
    // A README is the overview of its folder.
    const odd = parts.find((part) => part !== "README.md" && !KEBAB_CASE.test(part));
    return [
      ...(empty ? [`"${empty}" says nothing about its content. Name it for the one thing it holds.`] : []),
      ...(odd ? [`"${odd}" must be kebab-case, as in "token-batch.ts".`] : []),
    ].map((text) => ({ file, line: 1, text }));
  });
}

export function checkLength(sources) {
  return sources
    .filter(({ file }) => !file.includes("/generated/"))
    .map(({ file, text }) => ({ file, lines: text.trimEnd().split("\n").length }))
    .filter(({ lines }) => lines > MAX_LINES)
    .map(({ file, lines }) => ({
      file,
      line: MAX_LINES + 1,
      text: `has ${lines} lines; ${MAX_LINES} are allowed. Split it by what its parts do.`,
    }));
}

export function checkConsole(sources) {
  const text = "console is for cli/ and tracking/console.ts. Return a metric or a value, or throw.";
  return matches(
    sources.filter(({ file }) => !consolePlaces.some((place) => file.startsWith(place))),
    /\bconsole\s*\./g,
    text,
  );
}

export function checkDefaultExports(sources) {
  const text = "default exports are not used here: they have no fixed name. Export a named value.";
  return matches(sources, /\bexport\s+default\b|\bexport\s*\{[^}]*\bas\s+default\b/g, text);
}

export function checkRandomness(sources) {
  const stages = sources.filter(({ folder }) => !clockFolders.includes(folder));
  return matches(
    stages,
    /\bMath\s*\.\s*random\b/g,
    "Math.random cannot be repeated. Take a seeded generator as an argument.",
  );
}

/** Tests may measure time; stages may not. */
export function checkClock(sources) {
  const stages = sources.filter(
    ({ file, folder }) => !clockFolders.includes(folder) && !(file in clockFiles) && !file.endsWith(".test.ts"),
  );
  const clock = /\bDate\s*\.\s*now\b|\bperformance\s*\.\s*now\b|\bprocess\s*\.\s*hrtime\b|\bnew\s+Date\s*\(\s*\)/g;
  return matches(
    stages,
    clock,
    `the clock is read in ${clockFolders.join(", ")} only. Take a clock as an argument, or list the file in ${TABLE} with the reason.`,
  );
}

function matches(sources, pattern, text) {
  return sources.flatMap(({ file, code }) =>
    [...code.matchAll(pattern)].map((match) => ({ file, line: lineAt(code, match.index), text })),
  );
}

function isAllowed(from, to) {
  return allowedImports[from].includes(to);
}

function crossFolderImports(sources) {
  const byFile = new Map(sources.map((source) => [source.file, source]));
  return sources.flatMap((source) =>
    source.imports
      .map(({ target, line }) => ({ source, target: byFile.get(target), line }))
      .filter(({ target }) => target !== undefined && target.folder !== source.folder)
      // Fakes are above all stages; a test beside the code may use them all the same.
      .filter(({ target }) => !(target.folder === "testing" && source.file.endsWith(".test.ts"))),
  );
}

function graphOf(edges) {
  const graph = new Map();
  for (const [from, to] of edges) graph.set(from, [...(graph.get(from) ?? []), to]);
  return graph;
}

function arrows(cycle) {
  return [...cycle, cycle[0]].join(" -> ");
}
