import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseSafetensorsHeader, readSafetensorsHeader } from "./safetensors-header.ts";

/** The bytes of a file with this JSON and this many data bytes. */
function fileBytes(json: string, dataBytes: number): Uint8Array {
  const text = new TextEncoder().encode(json);
  const bytes = new Uint8Array(8 + text.byteLength + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.byteLength), true);
  bytes.set(text, 8);
  return bytes;
}

function parse(json: string, dataBytes: number) {
  const bytes = fileBytes(json, dataBytes);
  return parseSafetensorsHeader(bytes, bytes.byteLength, "a.safetensors");
}

const entry = (dtype: string, shape: string, offsets: string) =>
  `{"dtype":"${dtype}","shape":${shape},"data_offsets":${offsets}}`;

test("a header gives dtype, shape, place and metadata of every tensor", () => {
  const json = `{"__metadata__":{"format":"pt"},"a":${entry("F32", "[2,3]", "[0,24]")},"b":${entry("BF16", "[]", "[24,26]")}}   `;
  const header = parse(json, 26);
  expect(header.metadata).toEqual({ format: "pt" });
  expect(header.dataOffset).toBe(154);
  // 8 + 146 = 154 is no multiple of 4, so "a" is not aligned; 154 + 24 = 178 is a multiple of 2, so "b" is.
  expect([...header.tensors]).toEqual([
    ["a", { dtype: "F32", shape: [2, 3], start: 0, end: 24, isAligned: false }],
    ["b", { dtype: "BF16", shape: [], start: 24, end: 26, isAligned: true }],
  ]);
});

test("a header may list tensors in any order; they come back in the order of their bytes", () => {
  const header = parse(`{"late":${entry("U8", "[3]", "[2,5]")},"early":${entry("I16", "[1]", "[0,2]")}}`, 5);
  expect([...header.tensors.keys()]).toEqual(["early", "late"]);
});

test("a header may hold empty tensors, spaces and escapes", () => {
  const header = parse(` {  "x\\u0041\\n" : ${entry("F16", "[0, 4]", "[ 0 , 0 ]")}\n}   `, 0);
  expect([...header.tensors.keys()]).toEqual(["xA\n"]);
});

test("a file without tensors is valid", () => {
  expect(parse("{}", 0).tensors.size).toBe(0);
});

test("a key called __proto__ is only a key", () => {
  const header = parse('{"__metadata__":{"__proto__":"x"}}', 0);
  expect(Object.keys(header.metadata)).toEqual(["__proto__"]);
  expect(Object.getPrototypeOf(header.metadata)).toBe(Object.prototype);
});

const lies: [string, string, number, RegExp][] = [
  [
    "an unknown dtype",
    `{"a":${entry("F31", "[1]", "[0,4]")}}`,
    4,
    /tensor "a" has dtype "F31" and the known ones are F64, F32/,
  ],
  ["too few bytes", `{"a":${entry("F32", "[2,2]", "[0,12]")}}`, 12, /has 12 bytes but shape \[2,2\] of F32 needs 16/],
  ["an end before its start", `{"a":${entry("U8", "[2]", "[4,2]")}}`, 4, /ends at byte 2, before its start at 4/],
  ["an end after the file", `{"a":${entry("U8", "[9]", "[0,9]")}}`, 8, /ends at byte 9 of the data and there are 8/],
  [
    "a product that overflows",
    `{"a":${entry("U8", "[94906267,94906267]", "[0,1]")}}`,
    1,
    /shape of more than 2\^53 bytes/,
  ],
  [
    "an overlap",
    `{"a":${entry("U8", "[4]", "[0,4]")},"b":${entry("U8", "[4]", "[2,6]")}}`,
    6,
    /starts at byte 2, inside/,
  ],
  [
    "a hole",
    `{"a":${entry("U8", "[1]", "[0,1]")},"b":${entry("U8", "[1]", "[2,3]")}}`,
    3,
    /bytes 1 to 2 .* belong to no tensor/,
  ],
  ["unused bytes at the end", `{"a":${entry("U8", "[1]", "[0,1]")}}`, 5, /bytes 1 to 5 .* at the end/],
  ["a name twice", `{"a":${entry("U8", "[1]", "[0,1]")},"a":${entry("U8", "[1]", "[0,1]")}}`, 1, /the key "a" twice/],
  [
    "a name twice in two spellings",
    `{"a":${entry("U8", "[0]", "[0,0]")},"\\u0061":${entry("U8", "[0]", "[0,0]")}}`,
    0,
    /twice/,
  ],
  ["a negative size", `{"a":${entry("U8", "[-1]", "[0,1]")}}`, 1, /needs a non-negative integer/],
  ["a fractional size", `{"a":${entry("U8", "[1.5]", "[0,1]")}}`, 1, /where the format needs ']'/],
  ["an unsafe integer", `{"a":${entry("U8", "[9007199254740992]", "[0,1]")}}`, 1, /at most 2\^53 - 1/],
  ["an integer of many digits", `{"a":${entry("U8", `[${"9".repeat(400)}]`, "[0,1]")}}`, 1, /at most 2\^53 - 1/],
  ["a leading zero", `{"a":${entry("U8", "[01]", "[0,1]")}}`, 1, /needs a non-negative integer/],
  ["a control character", '{"a\nb":0}', 0, /needs the end of a string/],
  ["three offsets", `{"a":${entry("U8", "[1]", "[0,1,1]")}}`, 1, /has 3 data_offsets/],
  ["a missing field", '{"a":{"dtype":"U8","shape":[1]}}', 1, /needs an entry with "dtype", "shape" and "data_offsets"/],
  ["an unknown field", '{"a":{"dtype":"U8","extra":[1]}}', 1, /needs "dtype", "shape" or "data_offsets"/],
  ["metadata that is no text", '{"__metadata__":{"a":1}}', 0, /where the format needs '"'/],
  ["a broken escape", '{"\\x":1}', 0, /needs a JSON escape/],
  ["half a surrogate pair", `{"\\ud800":${entry("U8", "[0]", "[0,0]")}}`, 0, /whole characters/],
  ["an unfinished string", '{"abc', 0, /the end of the header at character 5/],
  ["something after the object", "{} {}", 0, /the end of the header/],
  ["an array", "[]", 0, /needs '\{'/],
  ["nothing", "", 0, /needs '\{'/],
];

test.each(lies)("a header with %s is refused", (_, json, dataBytes, message) => {
  expect(() => parse(json, dataBytes)).toThrow(message);
  expect(() => parse(json, dataBytes)).toThrow(expect.objectContaining({ code: "SAFETENSORS_INVALID" }));
});

test("a header that is not UTF-8 is refused", () => {
  const bytes = fileBytes('{"?":0}', 0);
  bytes[10] = 0xff;
  expect(() => parseSafetensorsHeader(bytes, bytes.byteLength, "a")).toThrow(/not UTF-8/);
});

test("a header length is checked against the limit, the file and the bytes at hand", () => {
  const bytes = fileBytes("{}", 0);
  const view = new DataView(bytes.buffer);
  expect(() => parseSafetensorsHeader(bytes.subarray(0, 7), 7, "a")).toThrow(/it has 7 bytes/);
  expect(() => parseSafetensorsHeader(bytes.subarray(0, 9), 10, "a")).toThrow(/needs 10 bytes and only 9 came/);
  view.setBigUint64(0, 3n, true);
  expect(() => parseSafetensorsHeader(bytes, 10, "a")).toThrow(/claims 3 bytes but the file has 10/);
  view.setBigUint64(0, 2n ** 64n - 1n, true);
  expect(() => parseSafetensorsHeader(bytes, 10, "a")).toThrow(
    /claims 18446744073709551615 bytes and at most 100000000/,
  );
});

test("100 MB of opening brackets are refused at the first one", () => {
  const bytes = new Uint8Array(100_000_008).fill("[".charCodeAt(0));
  new DataView(bytes.buffer).setBigUint64(0, 100_000_000n, true);
  expect(() => parseSafetensorsHeader(bytes, bytes.byteLength, "a")).toThrow(
    /at character 0 where the format needs '\{'/,
  );
});

test("the header of a file on disk is read without its data", () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-safetensors-"));
  const path = join(folder, "a.safetensors");
  writeFileSync(path, fileBytes(`{"a":${entry("I64", "[2]", "[0,16]")}}`, 16));
  expect(readSafetensorsHeader(path).tensors.get("a")?.end).toBe(16);
  writeFileSync(path, "short");
  expect(() => readSafetensorsHeader(path)).toThrow(/a\.safetensors is not a valid safetensors file: it has 5 bytes/);
  expect(() => readSafetensorsHeader(join(folder, "b"))).toThrow(expect.objectContaining({ code: "FILE_NOT_FOUND" }));
  expect(() => readSafetensorsHeader(folder)).toThrow(expect.objectContaining({ code: "FILE_NOT_REGULAR" }));
  rmSync(folder, { recursive: true });
});
