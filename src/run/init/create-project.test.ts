import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkRun } from "../check-run.ts";
import { loadRunFile } from "../load-run-file.ts";
import { resolveRun } from "../resolve-run.ts";
import { createProject, modelFor, projectName } from "./create-project.ts";
import { scaffolds, type TaskKind } from "./project-files.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-init-"));
});
afterEach(() => rmSync(root, { recursive: true }));

// The others are runs of other kinds: see src/tuning/prepare-tuning.test.ts and test/runs/scaffolds.test.ts.
const languageTasks = (Object.keys(scaffolds) as TaskKind[]).filter(
  (task) => !["control", "supervised", "preference", "reward-model"].includes(task),
);
const choices = { model: "nano", name: "first", dependency: "^1.2.3" } as const;

test.each(languageTasks)("a project for %s has a run file that is accepted", async (task) => {
  const files = createProject(root, { ...choices, task });
  expect(files).toEqual(expect.arrayContaining(["package.json", "tsconfig.json", "run.ts", "README.md"]));
  expect(JSON.parse(readFileSync(join(root, "package.json"), "utf8"))).toMatchObject({
    name: "first",
    type: "module",
    dependencies: { reroll: "^1.2.3" },
  });
  const { config, recipe } = resolveRun(await loadRunFile(join(root, "run.ts")));
  checkRun(config, recipe);
  expect(config).toMatchObject({ name: "first", model: { preset: "nano", path: null } });
});

test.each(languageTasks)(
  "with a folder as its model, a project for %s is trained gently and without a warm start",
  (task) => {
    createProject(root, { ...choices, task, model: "./Qwen3-0.6B" });
    const text = readFileSync(join(root, "run.ts"), "utf8");
    expect(text).toContain('model: { path: "./Qwen3-0.6B" }');
    expect(text).toContain("lr: 1e-6");
    expect(text).not.toContain("warmStart");
  },
);

test.each([
  ["my-agent", "./Qwen3-0.6B", "../Qwen3-0.6B"],
  [".", "./Qwen3-0.6B", "./Qwen3-0.6B"],
  ["my-agent", "src", "../src"],
  ["my-agent", "/models/Qwen3-0.6B", "/models/Qwen3-0.6B"],
  ["my-agent", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"],
  ["my-agent", "nano", "nano"],
])("a project in %s names the model %s as %s", (folder, model, named) => {
  expect(modelFor(folder, model)).toBe(named);
});

test("nothing is written where a file would be overwritten", () => {
  writeFileSync(join(root, "run.ts"), "mine");
  const create = () => createProject(root, { ...choices, task: "game" });
  expect(create).toThrow(`${root} already has run.ts. Nothing was written. Name a new folder.`);
  expect(readFileSync(join(root, "run.ts"), "utf8")).toBe("mine");
  expect(() => readFileSync(join(root, "package.json"))).toThrow("ENOENT");
});

test("a package.json that is there keeps what it says, so that its lock file still fits", () => {
  const dependencies = { reroll: "file:reroll.tgz", zod: "4.0.0" };
  writeFileSync(join(root, "package.json"), JSON.stringify({ name: "mine", scripts: { train: "own" }, dependencies }));
  expect(createProject(root, { ...choices, task: "game" })).toContain("package.json");
  expect(JSON.parse(readFileSync(join(root, "package.json"), "utf8"))).toEqual({
    name: "mine",
    type: "module",
    scripts: { train: "own", plan: "reroll train run.ts --plan", doctor: "reroll doctor" },
    dependencies,
  });
});

test.each([
  ["My Agent", "my-agent"],
  ["a_b.c", "a-b.c"],
  ["...", "first-run"],
])("the folder %s becomes the name %s", (folder, name) => {
  expect(projectName(folder)).toBe(name);
});
