/**
 * What the entry points offer, and what the documents say about it.
 *
 * Names change only on purpose: `npx vitest run test/surface -u` writes the new list.
 */
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import ts from "typescript";
import { beforeAll, describe, expect, test } from "vitest";
import { entryPoints } from "./entry-points.ts";
import { documents, readSnippets } from "./snippets.ts";

const snippets = documents.flatMap(readSnippets);
const exported = new Map<string, readonly string[]>();
let program: ts.Program;

beforeAll(() => {
  program = compile(new Map(snippets.map(({ path, module }) => [resolve(path), module])));
  for (const { name, source } of entryPoints) exported.set(name, namesOf(program, source));
}, 120_000);

describe("names", () => {
  test("the exported names of each entry point, values and types, are those of exports.txt", async () => {
    const sections = [...exported].map(([entry, names]) => `# ${entry}\n${names.join("\n")}\n`);
    await expect(sections.join("\n")).toMatchFileSnapshot("exports.txt");
  });

  test("reroll itself stays small: 80 names at most", () => {
    expect(exported.get("reroll")!.length).toBeLessThanOrEqual(80);
  });

  test("every name of reroll is used in a guide or an example", () => {
    const code = [...documents.map(codeOf), ...examples()].join("\n");
    const unused = exported
      .get("reroll")!
      .map((name) => name.replace("type ", ""))
      .filter((name) => !new RegExp(`(?<![\\w.'"-])${name}(?![\\w'"-])`).test(code));
    expect(unused).toEqual([]);
  });
});

describe("documents", () => {
  test("every TypeScript block of README and the guides compiles against the entry points", () => {
    expect(snippets.length).toBeGreaterThan(40);
    const errors = snippets.flatMap(({ path }) => {
      const file = program.getSourceFile(resolve(path))!;
      return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map(
        ({ start = 0, messageText }) => {
          const line = file.getLineAndCharacterOfPosition(start).line + 1;
          return `${path.replace(/\.\d+\.ts$/, ".md")}:${line} ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
        },
      );
    });
    expect(errors).toEqual([]);
  });
});

/** A program of the entry points and of modules that exist in memory only. */
function compile(modules: ReadonlyMap<string, string>): ts.Program {
  const ignored = { ...ts.sys, onUnRecoverableConfigFileDiagnostic() {} };
  const config = ts.getParsedCommandLineOfConfigFile("tsconfig.json", {}, ignored);
  // Blocks show how to get a value and not always what to do with it.
  const options = { ...config?.options, noEmit: true, incremental: false, noUnusedLocals: false };
  const host = ts.createCompilerHost(options, true);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (file) => modules.has(file) || fileExists(file);
  host.readFile = (file) => modules.get(file) ?? readFile(file);
  host.getSourceFile = (file, ...rest) => {
    const text = modules.get(file);
    return text === undefined ? getSourceFile(file, ...rest) : ts.createSourceFile(file, text, rest[0], true);
  };
  return ts.createProgram([...entryPoints.map(({ source }) => source), ...modules.keys()], options, host);
}

function namesOf(program: ts.Program, source: string): readonly string[] {
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(source)!)!;
  const names = checker.getExportsOfModule(module).map((symbol) => {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    return target.flags & ts.SymbolFlags.Value ? symbol.name : `type ${symbol.name}`;
  });
  return names.sort((left, right) => (left.replace("type ", "") < right.replace("type ", "") ? -1 : 1));
}

/** Blocks of TypeScript, and names in the running text: `buildReward`, `randomAgent(seed)`. */
function codeOf(document: string): string {
  const prose = readFileSync(document, "utf8").replace(/^```[\s\S]*?^```$/gm, "");
  const named = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, words]) => words!);
  return [...readSnippets(document).map(({ shown }) => shown), ...named].join("\n");
}

function examples(): readonly string[] {
  return readdirSync("examples", { recursive: true, encoding: "utf8" })
    .filter((name) => !name.includes("node_modules"))
    .filter((name) => name.endsWith(".ts"))
    .map((name) => readFileSync(`examples/${name}`, "utf8"));
}
