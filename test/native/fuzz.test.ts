import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { native } from "../../src/torch/binding.ts";
import { knownCrashes } from "./known-crashes.ts";
import { runFuzz } from "./run-fuzz.ts";

const source = fileURLToPath(new URL("../../src", import.meta.url));
const known = knownCrashes(native.torchVersion);

/** The schemas of the operators that files under src name, less those that libtorch is known to crash in. */
function usedSchemas(): string[] {
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((file) =>
    /(?<!\.test)\.ts$/.test(file),
  );
  const used = new Set(
    files.flatMap((file) =>
      [...readFileSync(join(source, file), "utf8").matchAll(/\bop\(\s*"([^"]+)"/g)].map(([, name]) => name),
    ),
  );
  const nameOf = (schema: string) => schema.slice(0, schema.indexOf("("));
  return native
    .listSchemas()
    .filter((schema) => used.has(nameOf(schema)) && !(nameOf(schema) in known))
    .sort();
}

test("whatever is passed to the operators that the project uses, a call returns or throws an error with a code", async () => {
  const schemas = usedSchemas();
  expect(schemas.length).toBeGreaterThan(150);
  const { crashes, counts } = await runFuzz(schemas, { calls: 200, hangMs: 20_000 });
  expect(crashes).toEqual([]);
  expect(counts.length).toBe(schemas.length);
  const codes = new Set(counts.flatMap(({ threw }) => Object.keys(threw)));
  const expected = [
    "TORCH",
    "INVALID_ARGUMENT",
    "DISPOSED_TENSOR",
    "DISPOSED_OBJECT",
    "OUT_OF_MEMORY",
    "SHAPE_MISMATCH",
  ];
  expect([...codes].filter((code) => !expected.includes(code))).toEqual([]);
  expect(counts.filter(({ leaked }) => leaked !== 0)).toEqual([]);
  // The draws are of use only where many calls get past the checks.
  expect(counts.reduce((sum, { returned }) => sum + returned, 0)).toBeGreaterThan(5_000);
}, 180_000);

test("the list of known crashes names operators that exist", () => {
  const unknown = Object.keys(known).filter((name) => native.operator(name) === null);
  expect(unknown).toEqual([]);
});
