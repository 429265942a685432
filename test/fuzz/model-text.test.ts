/** Whatever a model writes, reading it takes time in proportion to its length. */
import { expect, test } from "vitest";
import { type HostileText, hostileText, repeated, UNITS } from "./hostile-texts.ts";
import { openTextReaders, type TextReader } from "./text-readers.ts";

const SHORT = 25_000;
const LONG = 4 * SHORT;
/** Four times the text may take eight times as long, where quadratic time would be sixteen. What takes less than this is no matter. */
const HARMLESS_MS = 100;
const NUM_MIXED = 30;

async function elapsedMs({ read }: TextReader, text: string): Promise<number> {
  const start = performance.now();
  await read(text);
  return performance.now() - start;
}

/** A machine under load is slow at times; what is slow by itself is slow every time. */
async function isSlow(reader: TextReader, text: HostileText): Promise<boolean> {
  for (let attempt = 0; attempt < 6; attempt++) {
    const long = await elapsedMs(reader, text(LONG));
    if (long < HARMLESS_MS || long < 8 * (await elapsedMs(reader, text(SHORT)))) return false;
  }
  return true;
}

const texts = [
  ...UNITS.map((unit) => ({ name: JSON.stringify(unit), text: repeated(unit) })),
  ...Array.from({ length: NUM_MIXED }, (_, number) => hostileText(number)),
];
const readers = await openTextReaders();

test.each(readers)("$name reads long repetitions in linear time", async (reader) => {
  const slow: string[] = [];
  for (const { name, text } of texts) if (await isSlow(reader, text)) slow.push(name);
  expect(slow).toEqual([]);
});
