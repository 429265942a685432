/**
 * Packages that few runs need and that are installed by those who do: optional peers of ours, loaded on demand and asked for by name.
 *
 * They are most of the size of all packages together, so that the others stay small.
 */
import { existsSync, readFileSync } from "node:fs";
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
 * Throws PACKAGE_MISSING where a package is not installed, or in a version that we do not work with.
 * @param what who needs it, as the user wrote it: `env.type "hopper"`
 * @param instead what else would help, as a sentence
 */
export function expectPackage(name: OptionalPackage, what: string, instead = "", find = installedVersion): void {
  const [tested, found] = [optionalPackages[name], find(name)];
  if (found !== undefined && isCompatible(found, tested)) return;
  const problem =
    found === undefined
      ? `the package ${name}, which is not installed`
      : `${name} ${tested}, or a later one that is compatible: ${found} is installed`;
  throw new RerollError(
    "PACKAGE_MISSING",
    `${what} needs ${problem}. Run: npm install ${name}@${tested}${instead === "" ? "" : `. ${instead}`}`,
    { name },
  );
}

/** The version that Node would find from here. Nothing is loaded. */
function installedVersion(name: OptionalPackage): string | undefined {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? [];
  const file = folders.map((folder) => join(folder, name, "package.json")).find((path) => existsSync(path));
  return file === undefined ? undefined : (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

/** Whether npm would take one for ^tested, as package.json asks: no older, and the same up to the first number that is not zero. */
function isCompatible(version: string, tested: string): boolean {
  const [own, wanted] = [version, tested].map((text) => text.split(/[.+-]/).slice(0, 3).map(Number)) as [
    number[],
    number[],
  ];
  const numFixed = wanted.findIndex((part) => part !== 0) + 1;
  const differing = wanted.findIndex((part, i) => part !== own[i]);
  return differing < 0 || (differing >= numFixed && own[differing]! > wanted[differing]!);
}
