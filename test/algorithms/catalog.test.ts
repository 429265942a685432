/** The catalog that docs/reference/algorithms.md is made from: complete, and the document fresh. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { pieces, supporting } from "../../scripts/generate/algorithm-table/catalog/pieces.ts";
import { readSources } from "../../scripts/generate/algorithm-table/read-source.ts";
import { algorithmTable } from "../../scripts/generate/algorithm-table.ts";
import * as algorithms from "../../src/algorithms/index.ts";
import { recipes } from "../../src/algorithms/recipes/table.ts";

const root = new URL("../..", import.meta.url).pathname;
const sources = readSources(root);
const listed = pieces.map(({ file, name }) => `${file}#${name}`);

test("every exported function is a piece with a row, or is named as support", () => {
  const unknown = sources.exportedFunctions.filter(
    (id) => !listed.includes(id) && !supporting.includes(id) && !supporting.includes(id.split("#")[0]!),
  );
  expect(unknown).toEqual([]);
});

test("every row and every supporting name is of an exported function", () => {
  const files = sources.exportedFunctions.map((id) => id.split("#")[0]);
  const known = new Set([...sources.exportedFunctions, ...files]);
  expect([...listed, ...supporting].filter((id) => !known.has(id))).toEqual([]);
});

test("every piece can be imported from the index", () => {
  expect(pieces.map(({ name }) => name).filter((name) => !(name in algorithms))).toEqual([]);
});

test("every piece has a formula, and every recipe a section", () => {
  const document = algorithmTable(root);
  expect(document).not.toMatch(/\| {2}\| `|undefined/);
  for (const { file, name } of pieces) {
    expect(document).toContain(`| \`${name}\`, in ${file} | `);
    expect(sources.docOf(file, name).length).toBeGreaterThan(20);
  }
  for (const name of Object.keys(recipes)) expect(document).toContain(`\n### ${name}\n`);
});

test("docs/reference/algorithms.md is what the generator writes", () => {
  expect(readFileSync(`${root}docs/reference/algorithms.md`, "utf8")).toBe(algorithmTable(root));
});
