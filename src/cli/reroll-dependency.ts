/**
 * What a new project's package.json says to get this copy of reroll.
 *
 * Installed from a registry, that is its version. Installed from a tarball or a folder, it is where that lies; and a checkout is
 * itself what is installed, by its path.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { isCheckout, packageRoot } from "../torch/find-addon.ts";

/** The dependency of a project in `folder`. */
export function rerollDependency(folder: string, version: string): string {
  if (isCheckout) return fileDependency(folder, packageRoot);
  const project = projectAround(packageRoot);
  const said = project === null ? undefined : dependenciesOf(project).reroll;
  if (project === null || said === undefined || !said.startsWith("file:")) return said ?? `^${version}`;
  return fileDependency(folder, resolve(project, said.slice("file:".length)));
}

/** Whether a folder is a project that has reroll already, such as one that `npm install reroll` has made. */
export function hasReroll(folder: string): boolean {
  return existsSync(join(folder, "package.json")) && dependenciesOf(folder).reroll !== undefined;
}

function fileDependency(folder: string, target: string): string {
  const path = relative(folder, target);
  return `file:${path.startsWith(".") ? path : `./${path}`}`;
}

/** The project whose node_modules holds the package. */
function projectAround(root: string): string | null {
  const index = root.lastIndexOf("/node_modules/");
  const project = index < 0 ? dirname(root) : root.slice(0, index);
  return index >= 0 && existsSync(join(project, "package.json")) ? project : null;
}

function dependenciesOf(project: string): Readonly<Record<string, string>> {
  const { dependencies, devDependencies }: Record<string, Record<string, string> | undefined> = JSON.parse(
    readFileSync(join(project, "package.json"), "utf8"),
  );
  return { ...devDependencies, ...dependencies };
}
