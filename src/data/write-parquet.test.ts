import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect } from "../../test/data/collect.ts";
import { temporaryFolder } from "../../test/data/temporary-folder.ts";
import { createByteBudget } from "./byte-budget.ts";
import { readParquet } from "./read-parquet.ts";
import { writeParquet } from "./write-parquet.ts";

const folder = temporaryFolder();

test("rows read back as they were written: texts, numbers, truth values, lists, objects, and what is missing", async () => {
  const file = join(folder.path, "rows.parquet");
  const rows = [
    { id: "a", reward: 0.5, count: 3, isCut: true, messages: [{ role: "user", content: "x" }], mixed: 1, gone: null },
    { id: "b", reward: -1, count: 4, isCut: false, messages: [], mixed: "text", gone: null },
  ];
  await writeParquet(file, [...rows, { id: "c" }]);
  const nothing = { reward: null, count: null, isCut: null, messages: null, mixed: null, gone: null };
  expect(await collect(readParquet(file, createByteBudget()))).toEqual([...rows, { id: "c", ...nothing }]);
  expect(existsSync(`${file}.writing`)).toBe(false);
});

test("no rows are refused", async () => {
  await expect(writeParquet(join(folder.path, "none.parquet"), [])).rejects.toThrow(
    "needs at least one row with a column",
  );
});
