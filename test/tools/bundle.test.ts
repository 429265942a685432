/** What `npm run bundle` packs runs where nothing is installed. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "reroll-bundle-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a bundle has the optional packages that it names: those read as files whole, and of those bundled what answers for them", () => {
  const source = (path: string) => JSON.stringify(resolve("src", path));
  const entry = join(folder, "packed.ts");
  writeFileSync(
    entry,
    `import { loadMujoco } from ${source("control/envs/mujoco/load-mujoco.ts")};
import { openCompiler } from ${source("generation/constraint/xgrammar.ts")};
await openCompiler({ tokens: ["a", "b"], numScores: 2, stopIds: [1] });
await loadMujoco();
console.log("both are there");
`,
  );
  const [out, elsewhere] = [join(folder, "pack"), join(folder, "elsewhere")];
  mkdirSync(elsewhere);
  mkdirSync(out);
  // Node is packed only where it is not there yet, and takes longest.
  writeFileSync(join(out, "node.xz"), "");
  execFileSync(process.execPath, ["scripts/bundle.mjs", entry, "--out", out]);
  const words = [join(out, "dist/entries/packed.js")];
  expect(execFileSync(process.execPath, words, { cwd: elsewhere, encoding: "utf8" })).toBe("both are there\n");
  expect(existsSync(join(out, "node_modules/quickjs-emscripten"))).toBe(false);
});
