/**
 * Packages that few runs need and that are installed by those who do: optional peers of ours, loaded on demand and asked for by name.
 *
 * They are most of the size of all packages together, so that the others stay small.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { RerollError } from "./reroll-error.ts";

/** The packages with the versions we test with, which package.json has too. */
export const optionalPackages = {
  "@cortex-js/compute-engine": "0.140.0",
  "@mlc-ai/web-xgrammar": "0.1.27",
  "@modelcontextprotocol/sdk": "1.32.2",
  "@mujoco/mujoco": "3.14.0",
  "quickjs-emscripten": "0.32.0",
} as const;

/** The name of one. */
type OptionalPackage = keyof typeof optionalPackages;

/**
 * Throws PACKAGE_MISSING where a package is not installed.
 * @param what who needs it, as the user wrote it: `env.type "hopper"`
 * @param instead what else would help, as a sentence
 */
export function expectPackage(name: OptionalPackage, what: string, instead = "", find = isInstalled): void {
  if (find(name)) return;
  throw new RerollError(
    "PACKAGE_MISSING",
    `${what} needs the package ${name}, which is not installed. Run: npm install ${name}@${optionalPackages[name]}${instead === "" ? "" : `. ${instead}`}`,
    { name },
  );
}

/** Whether Node would find it from here. Nothing is loaded. */
function isInstalled(name: OptionalPackage): boolean {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? [];
  return folders.some((folder) => existsSync(join(folder, name, "package.json")));
}
