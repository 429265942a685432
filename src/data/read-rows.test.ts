import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect } from "../../test/data/collect.ts";
import { temporaryFolder } from "../../test/data/temporary-folder.ts";
import { listDataFiles, readRows } from "./read-rows.ts";

const folder = temporaryFolder();
const b = folder.write("b.jsonl", '{"n":2}\n{"n":3}\n');
const a = folder.write("a.jsonl", '{"n":1}\n');
const other = folder.write("notes.txt", '{"n":4}\n');

test("a folder stands for its files of the type, in the order of their names", async () => {
  expect(await listDataFiles("jsonl", folder.path)).toEqual([a, b]);
});

test("a list keeps its order, and a file that is named may end in anything", async () => {
  expect(await listDataFiles("jsonl", [other, b])).toEqual([other, b]);
});

test("rows are counted in each file", async () => {
  expect(await collect(readRows("jsonl", [b, a]))).toEqual([
    { row: { n: 2 }, file: b, index: 0 },
    { row: { n: 3 }, file: b, index: 1 },
    { row: { n: 1 }, file: a, index: 0 },
  ]);
});

test("a folder without files of the type, and a path that is not there, are errors", async () => {
  await expect(listDataFiles("parquet", folder.path)).rejects.toThrow("has no files of type parquet");
  const absent = join(folder.path, "absent");
  await expect(listDataFiles("jsonl", absent)).rejects.toThrow(`${absent} cannot be read. Check the path.`);
  const empty = join(folder.path, "empty");
  mkdirSync(empty);
  await expect(listDataFiles("jsonl", empty)).rejects.toMatchObject({ code: "DATA_EMPTY" });
});

test("files that are too large together are refused before a row is read", async () => {
  // 16 and 8 bytes lie there.
  await expect(readRows("jsonl", [b, a], 23).next()).rejects.toMatchObject({
    code: "DATA_TOO_LARGE",
    details: { spent: 24 },
  });
  await expect(readRows("jsonl", [b, a], 24).next()).resolves.toMatchObject({ done: false });
});
