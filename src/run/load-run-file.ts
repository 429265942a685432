/**
 * Reads a run file: `run.ts` (also .mts, .js, .mjs), YAML or JSON.
 *
 * In: a path. Out: what the file says, not yet checked against the schema. Each way to fail has an error of its own.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { extname, resolve } from "node:path";
import { parseDocument } from "yaml";
import { RerollError } from "../errors/reroll-error.ts";
import { entryPointsWith, importModule } from "./import-module.ts";

/** What a run file holds, before it is checked. */
export type RawRun = Readonly<Record<string, unknown>>;

const MODULES = [".ts", ".mts", ".js", ".mjs"];
const TEXTS = [".yaml", ".yml", ".json"];

/** Whether a run file is a module, which may hold functions. */
export function isModule(path: string): boolean {
  return MODULES.includes(extname(path));
}

/** Loads a run file. Modules give it as their default export, or as an export named `run`. */
export async function loadRunFile(path: string): Promise<RawRun> {
  const file = expectRunFile(path);
  return expectObject(path, MODULES.includes(extname(file)) ? await loadModule(path, file) : readText(path, file));
}

/** Throws where there is no run file at a path, or none by its name. Out: where it is. */
export function expectRunFile(path: string): string {
  const file = resolve(path);
  const kind = extname(file);
  if (![...MODULES, ...TEXTS].includes(kind)) {
    throw unusable(path, `has the ending ${JSON.stringify(kind)}. Known are: ${[...MODULES, ...TEXTS].join(", ")}.`);
  }
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) {
    throw new RerollError(
      "RUN_FILE_NOT_FOUND",
      `The run file ${path} does not exist (looked for ${file}). Check the path.`,
      {
        path: file,
      },
    );
  }
  return file;
}

async function loadModule(path: string, file: string): Promise<unknown> {
  const found = await importModule(file).catch(async (cause: unknown) => {
    throw unusable(path, `cannot be loaded: ${(await elsewhere(cause)) ?? reasonOf(cause, file)}`, cause);
  });
  const run = "default" in found ? found.default : found.run;
  if (run !== undefined) return run;
  const names = Object.keys(found);
  const has = names.length === 0 ? "It exports nothing." : `It exports ${names.join(", ")}.`;
  throw unusable(path, `exports no run. ${has} Write "export default defineRun({ ... })", or export it as "run".`);
}

/** Where a name is that a file looks for at the wrong entry point of reroll. */
async function elsewhere(cause: unknown): Promise<string | undefined> {
  const text = cause instanceof SyntaxError ? cause.message : "";
  const [, entry, name] = /module '(reroll(?:\/\w+)?)' does not provide an export named '(\w+)'/.exec(text) ?? [];
  if (entry === undefined || name === undefined) return undefined;
  const places = await entryPointsWith(name);
  if (places.length === 0) return undefined;
  return `${entry} does not export ${name}. Import it from ${places.map((place) => `"${place}"`).join(" or ")}.`;
}

/** JSON is read as YAML, of which it is a part: errors then name the line. */
function readText(path: string, file: string): unknown {
  const document = parseDocument(readFileSync(file, "utf8"), { prettyErrors: true });
  const [error] = document.errors;
  if (error === undefined) return document.toJS();
  const { line, col } = error.linePos?.[0] ?? { line: 1, col: 1 };
  const reason = error.message.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "");
  throw unusable(path, `cannot be read: ${path}:${line}:${col}: ${reason}.`, error);
}

function expectObject(path: string, value: unknown): RawRun {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as RawRun;
  const got = value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
  throw unusable(path, `must hold an object with the keys of a run, such as model and training: got ${got}.`);
}

/** The first line of a syntax error in TypeScript says how many there are, the second where and what. */
function reasonOf(cause: unknown, file: string): string {
  const lines = (cause instanceof Error ? cause.message : String(cause)).split("\n");
  if (lines[0]?.startsWith("Transform failed")) return lines[1] ?? "";
  return cause instanceof SyntaxError ? `${syntaxPlace(file)}${lines[0]}` : (lines[0] ?? "");
}

/** Node keeps the line of a syntax error in JavaScript from programs, and prints it for people. */
function syntaxPlace(file: string): string {
  const { stderr } = spawnSync(process.execPath, ["--check", file], { encoding: "utf8" });
  return /^(?:file:\/\/)?(\/.*:\d+)$/m.exec(stderr)?.[1]?.concat(": ") ?? "";
}

function unusable(path: string, text: string, cause?: unknown): RerollError {
  return new RerollError(
    "RUN_FILE_INVALID",
    `The run file ${path} ${text}`,
    { path },
    cause === undefined ? {} : { cause },
  );
}
