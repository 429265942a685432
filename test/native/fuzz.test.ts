import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { native } from "../../src/torch/binding.ts";
import { dynamicOp } from "../../src/torch/operator.ts";
import { uncheckedOperators } from "../../src/torch/unchecked-operators.ts";
import { runFuzz } from "./run-fuzz.ts";

const source = fileURLToPath(new URL("../../src", import.meta.url));

/** The schemas of the operators that files under src name, less those that have to be asked for as unchecked. */
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
    .filter((schema) => used.has(nameOf(schema)) && !uncheckedOperators.has(nameOf(schema)))
    .sort();
}

test("whatever is passed to the operators that the project uses, a call returns or throws an error with a code", async () => {
  const schemas = usedSchemas();
  expect(schemas.length).toBeGreaterThan(150);
  const { crashes, counts } = await runFuzz(schemas, { calls: 500, hangMs: 20_000 });
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
  expect(counts.reduce((sum, { returned }) => sum + returned, 0)).toBeGreaterThan(16_000);
}, 180_000);

test("an operator that libtorch does not check is refused until it is asked for as unchecked", () => {
  expect(() => dynamicOp("aten::_reshape_alias")(1)).toThrow("{ isUnchecked: true }");
  expect(() => dynamicOp("aten::_reshape_alias", { isUnchecked: true })(1)).toThrow("must be a Tensor");
});
