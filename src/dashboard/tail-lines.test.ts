import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { MAX_LINE_BYTES, readLineAt, tailLines } from "./tail-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-tail-"));
const path = join(folder, "lines.jsonl");

afterAll(() => rmSync(folder, { recursive: true }));

async function readAll(fromByte = 0) {
  const lines = [];
  let next = fromByte;
  let numTooLong = 0;
  for await (const slice of tailLines(path, fromByte)) {
    lines.push(...slice.lines);
    next = slice.nextByte;
    numTooLong += slice.numTooLong;
  }
  return { lines, next, numTooLong };
}

test("lines come with their places, in bytes, and a line without its end does not come", async () => {
  writeFileSync(path, "één\ntwee\nhalf");
  const { lines, next } = await readAll();
  expect(lines).toEqual([
    { text: "één", start: 0, numBytes: 5 },
    { text: "twee", start: 6, numBytes: 4 },
  ]);
  expect(next).toBe(11);
  appendFileSync(path, " a line\n");
  expect((await readAll(next)).lines).toEqual([{ text: "half a line", start: 11, numBytes: 11 }]);
  expect(await readLineAt(path, 6, 4)).toBe("twee");
  expect(await readLineAt(path, 6, 400)).toBe(undefined);
});

test("lines longer than a slice are whole, whatever their lengths", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 3 << 20 }), { minLength: 1, maxLength: 5 }),
      async (lengths) => {
        const texts = lengths.map((length, i) => String.fromCharCode(97 + i).repeat(length));
        writeFileSync(path, texts.map((text) => `${text}\n`).join(""));
        const { lines } = await readAll();
        // Compared one by one: a difference between megabytes cannot be printed.
        expect(lines.every(({ text }, i) => text === texts[i])).toBe(true);
        expect(lines.map(({ numBytes }) => numBytes)).toEqual(lengths);
        for (const { start, numBytes, text } of lines)
          expect((await readLineAt(path, start, numBytes)) === text).toBe(true);
      },
    ),
    { numRuns: 8 },
  );
});

test("a line over the limit is passed over and counted, and reading goes on after it", async () => {
  writeFileSync(path, Buffer.concat([Buffer.alloc(MAX_LINE_BYTES + 1, 120), Buffer.from("\nnext\n")]));
  const { lines, numTooLong, next } = await readAll();
  expect(lines.map(({ start, numBytes }) => [start, numBytes])).toEqual([[MAX_LINE_BYTES + 2, 4]]);
  expect([numTooLong, next]).toEqual([1, MAX_LINE_BYTES + 7]);
});

test("a file that is not there has no lines", async () => {
  rmSync(path);
  expect(await readAll()).toEqual({ lines: [], next: 0, numTooLong: 0 });
});
