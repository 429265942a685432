import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { collect } from "../../test/data/collect.ts";
import { temporaryFolder } from "../../test/data/temporary-folder.ts";
import { createByteBudget } from "./byte-budget.ts";
import { readJsonl } from "./read-jsonl.ts";

const folder = temporaryFolder();

async function read(file: string, maxBytes?: number) {
  return collect(readJsonl(file, createByteBudget(maxBytes)));
}

test("a JSONL file gives one row per line, whatever ends the lines, and skips empty ones", async () => {
  const file = folder.write("plain.jsonl", '\uFEFF{"a":1}\r\n\n{"a":[2,{"b":null}]}\n{"a":"3"}');
  expect(await read(file)).toEqual([{ a: 1 }, { a: [2, { b: null }] }, { a: "3" }]);
});

test("line separators of Unicode inside of a text do not end the line", async () => {
  const file = folder.write("separators.jsonl", '{"a":"x\u2028y\u2029z\u0085"}\n{"a":"w"}\n');
  expect(await read(file)).toEqual([{ a: "x\u2028y\u2029z\u0085" }, { a: "w" }]);
});

test("rows are whole where characters and lines cross the pieces that a file is read in", async () => {
  // 64 KiB hold no whole number of these 3-byte characters.
  const long = "\u6c34".repeat(50_000);
  const file = folder.write("long.jsonl", `{"a":"${long}"}\n{"a":"${long}!"}\n`);
  expect(await read(file)).toEqual([{ a: long }, { a: `${long}!` }]);
});

test("a packed file reads as the plain one", async () => {
  const file = folder.write("packed.jsonl.gz", gzipSync('{"a":1}\n{"a":2}\n'));
  expect(await read(file)).toEqual([{ a: 1 }, { a: 2 }]);
});

test("a packed file that is cut off is an error that names the file", async () => {
  const whole = gzipSync(Buffer.from(Array.from({ length: 999 }, (_, i) => `{"a":${i * 7919}}`).join("\n")));
  const file = folder.write("cut.jsonl.gz", whole.subarray(0, whole.length / 2));
  await expect(read(file)).rejects.toThrow(/cut\.jsonl\.gz cannot be read as UTF-8 text.*unexpected end of file/);
});

test("a line that is not JSON is an error that names the file and the line", async () => {
  const file = folder.write("bad.jsonl", '{"a":1}\n\n{"a":}\n{"a":2}\n');
  await expect(read(file)).rejects.toMatchObject({
    code: "DATA_INVALID",
    message: `${file} line 3 is not JSON: got {"a":}. Each line must hold one object.`,
    details: { line: 3 },
  });
});

test("a last line that is cut off is named as such", async () => {
  const file = folder.write("torn.jsonl", '{"a":1}\n{"a":"tw');
  await expect(read(file)).rejects.toThrow(/line 2 is not JSON: got \{"a":"tw\..*it may have been cut off/);
});

test("a line that holds something else than an object is an error", async () => {
  const file = folder.write("list.jsonl", "[1,2]\n");
  await expect(read(file)).rejects.toThrow("line 1 is not an object: got [1,2].");
});

test("bytes that are not UTF-8 are an error", async () => {
  const file = folder.write("latin.jsonl", Buffer.from('{"a":"\xe9"}\n', "latin1"));
  await expect(read(file)).rejects.toMatchObject({ code: "DATA_UNREADABLE" });
});

test("a file that is not there is an error that names it", async () => {
  await expect(read(join(folder.path, "absent.jsonl"))).rejects.toThrow(/absent\.jsonl cannot be read.*ENOENT/);
});

test("more than the limit is refused, counted unpacked", async () => {
  const file = folder.write("bomb.jsonl.gz", gzipSync(`{"a":"${"x".repeat(100_000)}"}\n`));
  await expect(read(file, 50_000)).rejects.toMatchObject({ code: "DATA_TOO_LARGE", details: { maxBytes: 50_000 } });
});
