/** Writes a new project. Refuses to overwrite anything. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";
import { type ProjectChoices, projectFiles } from "./project-files.ts";

/** Writes all files or none. Out: their names. */
export function createProject(folder: string, choices: ProjectChoices): string[] {
  const files = Object.entries(projectFiles(choices));
  const taken = files.map(([name]) => name).filter((name) => existsSync(join(folder, name)));
  if (taken.length > 0) {
    throw new RerollError(
      "FILE_EXISTS",
      `${folder} already has ${taken.join(", ")}. Nothing was written. Name a new folder.`,
      { folder, taken },
    );
  }
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of files) writeFileSync(join(folder, name), text, { flag: "wx" });
  return files.map(([name]) => name);
}

/** A package name that npm accepts, from the name of a folder. */
export function projectName(folder: string): string {
  const name = folder
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  return name === "" ? "first-run" : name;
}
