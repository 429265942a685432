import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadRunFile } from "./load-run-file.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-run-file-"));
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

test("a TypeScript file gives its default export, with its own imports, and reroll is the running copy", async () => {
  write("part.ts", "export const seed: number = 7;\n");
  const path = write(
    "run.ts",
    'import { RerollError } from "reroll";\nimport { seed } from "./part.ts";\nexport default { seed: seed as number, name: new RerollError("A", "b").code };\n',
  );
  expect(await loadRunFile(path)).toEqual({ seed: 7, name: "A" });
});

test("an export named run is taken where there is no default", async () => {
  expect(await loadRunFile(write("named.mjs", "export const run = { seed: 3 };\n"))).toEqual({ seed: 3 });
});

test("yaml and json are read", async () => {
  expect(await loadRunFile(write("a.yaml", "model:\n  preset: nano\nseed: 4\n"))).toEqual({
    model: { preset: "nano" },
    seed: 4,
  });
  expect(await loadRunFile(write("a.json", '{ "seed": 5, "data": null }'))).toEqual({ seed: 5, data: null });
});

test.each([
  ["gone.ts", null, /^The run file .*gone\.ts does not exist/],
  ["run.toml", "a = 1", /ending "\.toml"\. Known are: \.ts, .*\.json/],
  ["broken.ts", "export default {\n  seed: ,\n};\n", /cannot be loaded: .*broken\.ts:2:8: ERROR: Unexpected ","/],
  ["broken.mjs", "export default {\n  seed: ,\n};\n", /cannot be loaded: .*broken\.mjs:2/],
  ["broken.yaml", "model:\n  preset: [nano\nseed: 1\n", /cannot be read: .*broken\.yaml:\d+:\d+: .*\]/],
  ["broken.json", '{ "seed": 1,\n "name": "x"', /cannot be read: .*broken\.json:2:\d+: /],
  ["throws.ts", 'throw new Error("no luck");', /cannot be loaded: no luck/],
  ["missing.ts", 'import "./nothing.ts";', /cannot be loaded: Cannot find module .*nothing\.ts/],
  [
    "moved.ts",
    'import { defineControlRun } from "reroll";\nexport default defineControlRun({});',
    /reroll does not export defineControlRun\. Import it from "reroll\/control"\./,
  ],
  [
    "inside.ts",
    'import "reroll/run/train-run.ts";',
    /reroll\/run\/train-run\.ts is no entry point of reroll\. There are: reroll, /,
  ],
  ["empty.ts", "export const config = {};", /exports no run\. It exports config\. Write "export default defineRun/],
  ["list.yaml", "- 1\n- 2\n", /must hold an object .*: got a list/],
  ["function.ts", "export default () => ({});", /must hold an object .*: got a function/],
  ["nothing.yaml", "", /must hold an object .*: got null/],
])("%s is refused with what is wrong", async (name, text, message) => {
  const path = text === null ? join(folder, name) : write(name, text);
  await expect(loadRunFile(path)).rejects.toThrow(message);
});
