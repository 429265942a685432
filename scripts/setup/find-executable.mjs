/**
 * Looks a program up in PATH without starting a process.
 *
 * In: a program name or path. Out: its full path, or null.
 */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

export function findExecutable(name, env = process.env) {
  if (isAbsolute(name)) return isExecutable(name) ? name : null;
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, name)).find(isExecutable) ?? null;
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
