import fc from "fast-check";
import { expect, test } from "vitest";
import { collect } from "../../test/data/collect.ts";
import { temporaryFolder } from "../../test/data/temporary-folder.ts";
import { createByteBudget } from "./byte-budget.ts";
import { readJsonArray } from "./read-json-array.ts";

const folder = temporaryFolder();

async function read(content: string) {
  return collect(readJsonArray(folder.write("array.json", content), createByteBudget()));
}

test("any list of objects reads as JSON.parse reads it, in any layout", async () => {
  const rows = fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(rows, fc.constantFrom(0, 1, "\t"), async (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      expect(await read(text)).toEqual(JSON.parse(text));
    }),
  );
});

test("brackets, quotes and escapes inside of texts do not end an object", async () => {
  const rows = [{ a: '}]"{' }, { a: "\\" }, { 'k\\"}': ["]", { b: "[" }] }];
  expect(await read(JSON.stringify(rows))).toEqual(rows);
});

test("objects are whole where they cross the pieces that a file is read in", async () => {
  const rows = Array.from({ length: 300 }, (_, i) => ({ i, text: "\u6c34{".repeat(200) }));
  expect(await read(JSON.stringify(rows))).toEqual(rows);
});

test("an empty array has no rows", async () => {
  expect(await read(" [ ]\n")).toEqual([]);
});

test("an object that is not JSON is an error that names the line where it begins", async () => {
  await expect(read('[\n {"a": 1},\n {"a": nope}\n]')).rejects.toMatchObject({
    code: "DATA_INVALID",
    details: { line: 3 },
  });
});

test("lines of objects without an array are pointed to the type jsonl", async () => {
  await expect(read('{"a":1}\n{"a":2}\n')).rejects.toThrow(/line 1 holds "\{" where an array.*use type jsonl/);
});

test.each([
  ["[1]", 'line 1 holds "1" where an object must begin'],
  ['[{"a":1} {"a":2}]', 'line 1 holds "{" where a comma or the end of the array must follow'],
  ['[{"a":1},]', 'line 1 holds "]" where an object must begin'],
  ['[{"a":1}]\nx', 'line 2 holds "x" where the file must end'],
  ['[{"a":1},\n{"a"', "ends at line 2 before its array does"],
  ["", "ends at line 1 before its array does"],
])("%j is refused", async (text, message) => {
  await expect(read(text)).rejects.toThrow(message);
});
