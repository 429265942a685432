/** Writes a new project. Refuses to overwrite anything; a package.json and a .gitignore that are there already are added to or kept. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";
import { hubNameOf } from "../../hub/hub-name.ts";
import { presetSizes } from "../../models/causal-lm/presets.ts";
import { readShape } from "../check-files.ts";
import { addToPackage, type ProjectChoices, projectFiles } from "./project-files.ts";
import { isPreset } from "./scaffold.ts";

/** What a folder may have before: `npm install reroll` makes the first, git hosts make the others. */
const MAY_BE_THERE = ["package.json", ".gitignore", "README.md"];

/** Writes all files or none. Out: the names of those that were written. */
export function createProject(folder: string, choices: ProjectChoices): string[] {
  const files = Object.entries(projectFiles(choices));
  const there = files.map(([name]) => name).filter((name) => existsSync(join(folder, name)));
  const taken = there.filter((name) => !MAY_BE_THERE.includes(name));
  if (taken.length > 0) {
    throw new RerollError(
      "FILE_EXISTS",
      `${folder} already has ${taken.join(", ")}. Nothing was written. Name a new folder.`,
      { folder, taken },
    );
  }
  mkdirSync(folder, { recursive: true });
  const manifest = join(folder, "package.json");
  if (there.includes("package.json")) {
    writeFileSync(manifest, addToPackage(readFileSync(manifest, "utf8"), choices));
  }
  const missing = files.filter(([name]) => !there.includes(name));
  for (const [name, text] of missing) writeFileSync(join(folder, name), text, { flag: "wx" });
  return [...(there.includes("package.json") ? ["package.json"] : []), ...missing.map(([name]) => name)];
}

/** Throws for what is no preset, no model on this machine and no name on the Hub. Whether the Hub has the name is asked when the run starts. */
export function expectModel(model: string): void {
  if (isPreset(model) || hubNameOf(model) !== null) return;
  if (existsSync(model)) return void readShape(model, "--model");
  const presets = Object.keys(presetSizes).join(", ");
  throw new RerollError(
    "FILE_NOT_FOUND",
    `--model names ${JSON.stringify(model)}, and ${resolve(model)} does not exist. It takes a preset (${presets}), a folder in Hugging Face layout, a .gguf file, or the name of a model on the Hub, as owner/name. Correct it: nothing was written.`,
    { path: resolve(model) },
  );
}

/** The model as the run file has to name it: a path given from here is one from the project's folder, where the run is started. */
export function modelFor(folder: string, model: string): string {
  const isPath = !isPreset(model) && !isAbsolute(model) && (/^\.{1,2}(\/|$)/.test(model) || existsSync(model));
  if (!isPath) return model;
  const path = relative(resolve(folder), resolve(model));
  return path.startsWith("..") ? path : `./${path}`;
}

/** A package name that npm accepts, from the name of a folder. */
export function projectName(folder: string): string {
  const name = folder
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  return name === "" ? "first-run" : name;
}
