import fc from "fast-check";
import { expect, test } from "vitest";
import { Utf8Stream } from "./utf8-stream.ts";

test("an emoji comes out with its last byte", () => {
  const stream = new Utf8Stream();
  const bytes = new TextEncoder().encode("\u{1f680}");
  expect([...bytes].map((byte) => stream.push(Uint8Array.of(byte)))).toEqual(["", "", "", "\u{1f680}"]);
});

test("a character that never ends becomes one replacement character on flush", () => {
  const stream = new Utf8Stream();
  expect(stream.push(Uint8Array.of(0x61, 0xf0, 0x9f))).toBe("a");
  expect(stream.flush()).toBe("\ufffd");
  expect(stream.flush()).toBe("");
});

test("a byte-order mark stays in the text", () => {
  expect(new Utf8Stream().push(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61))).toBe("\ufeffa");
});

/** Bytes near the edges of UTF-8, where broken sequences are made. */
const edgeByte = fc.constantFrom(
  0x41,
  0x80,
  0x8f,
  0x90,
  0x9f,
  0xa0,
  0xbf,
  0xc1,
  0xc2,
  0xe0,
  0xed,
  0xef,
  0xf0,
  0xf4,
  0xf5,
);

test("any cut of any bytes gives what one decode gives", () => {
  const chunks = fc.array(fc.array(fc.oneof(edgeByte, fc.integer({ min: 0, max: 255 })), { maxLength: 5 }));
  fc.assert(
    fc.property(chunks, (bytes) => {
      const stream = new Utf8Stream();
      const streamed = bytes.map((chunk) => stream.push(Uint8Array.from(chunk))).join("") + stream.flush();
      expect(streamed).toBe(new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes.flat())));
    }),
    { numRuns: 2000 },
  );
});
