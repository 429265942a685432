/**
 * Imports a file of a person's own, TypeScript or JavaScript, with its imports.
 *
 * In: a path. Out: what the module exports. In such files "reroll" means the copy that is running, wherever the file lies, and
 * TypeScript is always an ES module, whatever the package.json around it says.
 */
import { register } from "node:module";
import { pathToFileURL } from "node:url";
import { register as registerTypeScript } from "tsx/esm/api";

/** Imports a module natively. Rejects with what Node or the module throws. */
export async function importModule(path: string): Promise<Record<string, unknown>> {
  prepare();
  const { load } = await import(/* @vite-ignore */ NATIVE_IMPORT);
  return load(pathToFileURL(path).href);
}

/** An import that no bundler or test runner has rewritten. */
const NATIVE_IMPORT = "data:text/javascript,export const load = (url) => import(url);";

let isPrepared = false;

/** Hooks stay for the life of the process: files may import later. The last one registered is asked first. */
function prepare(): void {
  if (isPrepared) return;
  isPrepared = true;
  registerTypeScript();
  const index = new URL(import.meta.url.endsWith(".ts") ? "../index.ts" : "../index.js", import.meta.url).href;
  register(`data:text/javascript,${encodeURIComponent(HOOKS)}`, { data: { index } });
}

/** Runs in Node's thread for hooks, which loads plain JavaScript only. */
const HOOKS = `
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
let index;
export function initialize(data) {
  index = data.index;
}
export async function resolve(specifier, context, next) {
  if (specifier === "reroll") return { url: index, format: "module", shortCircuit: true };
  if (/^(\\.{1,2}\\/|file:)/.test(specifier) && /\\.m?ts$/.test(specifier)) {
    const url = new URL(specifier, context.parentURL);
    const isOwn = url.protocol === "file:" && !url.pathname.includes("/node_modules/");
    if (isOwn && existsSync(fileURLToPath(url))) return { url: url.href, format: "module", shortCircuit: true };
  }
  return next(specifier, context);
}
`;
