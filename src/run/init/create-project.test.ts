import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkRun } from "../check-run.ts";
import { loadRunFile } from "../load-run-file.ts";
import { resolveRun } from "../resolve-run.ts";
import { createProject, projectName } from "./create-project.ts";
import { type TaskKind, taskKinds } from "./project-files.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-init-"));
});
afterEach(() => rmSync(root, { recursive: true }));

// That for supervised is a tuning run: see src/tuning/prepare-tuning.test.ts.
const tasks = (Object.keys(taskKinds) as TaskKind[]).filter((task) => task !== "supervised");

test.each(tasks)("a project for %s has a run file that is accepted", async (task) => {
  const files = createProject(root, { task, model: "nano", name: "first", version: "1.2.3" });
  expect(files).toEqual(expect.arrayContaining(["package.json", "run.ts", "README.md"]));
  expect(JSON.parse(readFileSync(join(root, "package.json"), "utf8"))).toMatchObject({
    name: "first",
    type: "module",
    dependencies: { reroll: "^1.2.3" },
  });
  // The import would load the whole library a second time, beside the copy under test.
  const text = readFileSync(join(root, "run.ts"), "utf8");
  expect(text).toContain('import { defineRun } from "reroll";');
  writeFileSync(
    join(root, "alone.ts"),
    text.replace(/import .* from "reroll";/, "const defineRun = (run: object) => run;"),
  );
  const { config, recipe } = resolveRun(await loadRunFile(join(root, "alone.ts")));
  checkRun(config, recipe);
  expect(config).toMatchObject({ name: "first", model: { preset: "nano", path: null } });
});

test("a model that is no preset is a folder, and is trained gently", async () => {
  createProject(root, { task: "reward", model: "./Qwen3-0.6B", name: "first", version: "1.2.3" });
  const text = readFileSync(join(root, "run.ts"), "utf8");
  expect(text).toContain('model: { path: "./Qwen3-0.6B" }');
  expect(text).toContain("lr: 1e-6");
});

test("nothing is written where a file would be overwritten", () => {
  writeFileSync(join(root, "run.ts"), "mine");
  const create = () => createProject(root, { task: "game", model: "nano", name: "first", version: "1.2.3" });
  expect(create).toThrow(`${root} already has run.ts. Nothing was written. Name a new folder.`);
  expect(readFileSync(join(root, "run.ts"), "utf8")).toBe("mine");
  expect(() => readFileSync(join(root, "package.json"))).toThrow("ENOENT");
});

test.each([
  ["My Agent", "my-agent"],
  ["a_b.c", "a-b.c"],
  ["...", "first-run"],
])("the folder %s becomes the name %s", (folder, name) => {
  expect(projectName(folder)).toBe(name);
});
