import { basename } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/data/temporary-folder.ts";
import { loadPrompts, promptsFromRows } from "./load-prompts.ts";

const folder = temporaryFolder();
const parent = basename(folder.path);
const ids = ({ prompts }: { prompts: readonly { id: string }[] }) => prompts.map(({ id }) => id);

test("ids are the folder, the file and the row, and the seed follows from the id", async () => {
  const file = folder.write("sums.jsonl", '{"question":"a","answer":"1"}\n{"question":"b","answer":"2"}\n');
  const set = await loadPrompts("jsonl", file);
  expect(ids(set)).toEqual([`${parent}/sums:0`, `${parent}/sums:1`]);
  expect(ids(await loadPrompts("jsonl", file, { name: "sums" }))).toEqual(["sums:0", "sums:1"]);
  expect(set.prompts[0]!.seed).not.toBe(set.prompts[1]!.seed);
  expect(set.statement).toBe(
    `${parent}/sums: 2 of 2 rows; schema plain (detected): question from question, truth from answer`,
  );
});

test("with several files the file is in the id, so that a new file changes no other ids", async () => {
  const a = folder.write("a.jsonl", '{"question":"a","answer":"1"}\n');
  const b = folder.write("b.jsonl", '{"question":"b","answer":"2"}\n');
  expect(ids(await loadPrompts("jsonl", [a, b], { name: "set" }))).toEqual(["set/a:0", "set/b:0"]);
});

test("a repeated id of the file's own gets the row behind it", async () => {
  const rows = [
    { id: "x", question: "a" },
    { id: "x", question: "b" },
    { id: 7, question: "c" },
  ];
  expect(ids(await promptsFromRows(rows, "set"))).toEqual(["set:x", "set:x#1", "set:7"]);
});

test("long prompts, duplicates and incomplete rows are left out where asked, and counted", async () => {
  const rows = [
    { question: "short", answer: "1" },
    { question: "much too long", answer: "2" },
    { question: "short", answer: "1 again" },
    { question: "other", answer: null },
    { question: "12345678", answer: "3" },
  ];
  const set = await promptsFromRows(rows, "set", { maxPromptChars: 8, dropsDuplicates: true, skipsIncomplete: true });
  expect(ids(set)).toEqual(["set:0", "set:4"]);
  expect(set).toMatchObject({ numRows: 5, numIncomplete: 1, numTooLong: 1, numDuplicates: 1 });
  expect(set.statement).toContain("set: 2 of 5 rows; schema plain (detected)");
  expect(set.statement).toContain("1 incomplete; 1 too long; 1 duplicates");
});

test("an incomplete row is an error otherwise, with its place", async () => {
  await expect(promptsFromRows([{ question: "a", answer: "1" }, { question: "b" }], "set")).rejects.toThrow(
    "set row 2 has nothing in answer. Mend the row, set fields, or set skipIncomplete. Its columns are: question.",
  );
});

test("the sides of a split are disjoint, cover all rows, and do not depend on the template", async () => {
  const rows = Array.from({ length: 100 }, (_, i) => ({ question: `Question ${i}`, answer: i }));
  const side = (part: "train" | "validation", system: string) =>
    promptsFromRows(rows, "set", { split: { part, share: 0.3 }, template: { system } });
  const train = ids(await side("train", "a"));
  const validation = ids(await side("validation", "b"));
  expect(validation.length).toBeGreaterThan(10);
  expect([...train, ...validation].toSorted()).toEqual(rows.map((_, i) => `set:${i}`).toSorted());
  expect(ids(await side("train", "b"))).toEqual(train);
});

test("a set of which nothing is left is an error that says why", async () => {
  await expect(promptsFromRows([{ question: "abc" }], "set", { maxPromptChars: 2 })).rejects.toMatchObject({
    code: "DATA_EMPTY",
    message: expect.stringContaining(
      "set: 0 of 1 rows; schema plain (detected): question from question, no truth; 1 too long",
    ),
  });
  await expect(loadPrompts("jsonl", folder.write("none.jsonl", "\n"))).rejects.toThrow("none: 0 of 0 rows");
});
