/**
 * Imports a file of a person's own, TypeScript or JavaScript, with its imports.
 *
 * In: a path. Out: what the module exports. In such files "reroll", and each entry point below it, means the copy that is
 * running, wherever the file lies, and TypeScript is always an ES module, whatever the package.json around it says.
 */
import { readFileSync } from "node:fs";
import { register } from "node:module";
import { pathToFileURL } from "node:url";

/** Imports a module natively. Rejects with what Node or the module throws. */
export async function importModule(path: string): Promise<Record<string, unknown>> {
  prepared ??= prepare();
  await prepared;
  const { load } = await import(/* @vite-ignore */ NATIVE_IMPORT);
  return load(pathToFileURL(path).href);
}

/** The entry points that export a value of this name, such as "reroll/control". */
export async function entryPointsWith(name: string): Promise<readonly string[]> {
  const { load } = await import(/* @vite-ignore */ NATIVE_IMPORT);
  const modules = Object.entries(entryPoints()).filter(([, url]) => /\.[jt]s$/.test(url));
  const found = await Promise.all(modules.map(async ([entry, url]) => (name in (await load(url)) ? [entry] : [])));
  return found.flat();
}

/** An import that no bundler or test runner has rewritten. */
const NATIVE_IMPORT = "data:text/javascript,export const load = (url) => import(url);";

let prepared: Promise<void> | undefined;

/** Hooks stay for the life of the process: files may import later. The last one registered is asked first. */
async function prepare(): Promise<void> {
  // Run files import it. What the hooks find loaded they are not asked for: a module costs half as much.
  const { load } = await import(/* @vite-ignore */ NATIVE_IMPORT);
  await load(entryPoints().reroll);
  const tsx = await import("tsx/esm/api");
  tsx.register();
  register(`data:text/javascript,${encodeURIComponent(HOOKS)}`, { data: { entries: entryPoints() } });
}

/** The address of each entry point that package.json names: its compiled file, or the source where the sources are running. */
function entryPoints(): Record<string, string> {
  const root = new URL("../../", import.meta.url);
  const { exports }: { exports: Record<string, string | { default: string }> } = JSON.parse(
    readFileSync(new URL("package.json", root), "utf8"),
  );
  const isSource = import.meta.url.endsWith(".ts");
  return Object.fromEntries(
    Object.entries(exports).map(([name, target]) => {
      const file = typeof target === "string" ? target : target.default;
      const running = isSource ? file.replace(/^\.\/dist\/(.*)\.js$/, "./src/$1.ts") : file;
      return [name.replace(".", "reroll"), new URL(running, root).href];
    }),
  );
}

/** Runs in Node's thread for hooks, which loads plain JavaScript only. */
const HOOKS = `
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
let entries;
export function initialize(data) {
  entries = data.entries;
}
export async function resolve(specifier, context, next) {
  if (/^reroll(?:\\/|$)/.test(specifier)) {
    const url = entries[specifier];
    if (url?.endsWith(".json")) return next(url, context);
    if (url !== undefined) return { url, format: "module", shortCircuit: true };
    throw new Error(specifier + " is no entry point of reroll. There are: " + Object.keys(entries).join(", ") + ".");
  }
  if (/^(\\.{1,2}\\/|file:)/.test(specifier) && /\\.m?ts$/.test(specifier)) {
    const url = new URL(specifier, context.parentURL);
    const isOwn = url.protocol === "file:" && !url.pathname.includes("/node_modules/");
    if (isOwn && existsSync(fileURLToPath(url))) return { url: url.href, format: "module", shortCircuit: true };
  }
  return next(specifier, context);
}
`;
