import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readSafetensorsHeader } from "./safetensors-header.ts";
import { writeSafetensors } from "./write-safetensors.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-write-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a written file is byte for byte what the official writer makes", () => {
  const path = join(folder, "a.safetensors");
  const floats = new Uint8Array(new Float32Array([0, 1, 2, 3, 4, 5]).buffer);
  writeSafetensors(path, [
    { name: "b", dtype: "F32", shape: [2, 3], bytes: () => floats },
    { name: "c", dtype: "F16", shape: [0, 4], bytes: () => new Uint8Array(0) },
    { name: "a", dtype: "I8", shape: [2], bytes: () => Uint8Array.of(1, 0xfe) },
  ]);
  // Written by safetensors 0.8.0 from Python for the same tensors: header of 200 bytes, then 24 + 0 + 2.
  const header =
    '{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},' +
    '"c":{"dtype":"F16","shape":[0,4],"data_offsets":[24,24]},"a":{"dtype":"I8","shape":[2],"data_offsets":[24,26]}} ';
  const written = readFileSync(path);
  expect(written.readBigUInt64LE(0)).toBe(200n);
  expect(written.toString("utf8", 8, 208)).toBe(header);
  expect([...written.subarray(208)]).toEqual([...floats, 1, 0xfe]);
});

test("tensors of smaller elements go last, so that all are aligned", () => {
  const path = join(folder, "a.safetensors");
  writeSafetensors(path, [
    { name: "flags", dtype: "BOOL", shape: [3], bytes: () => Uint8Array.of(1, 0, 1) },
    { name: "wide", dtype: "I64", shape: [1], bytes: () => new Uint8Array(8) },
  ]);
  const { tensors } = readSafetensorsHeader(path);
  expect([...tensors.keys()]).toEqual(["wide", "flags"]);
  expect([...tensors.values()].every((tensor) => tensor.isAligned)).toBe(true);
});

test("a tensor may come in pieces, and the next one is asked only afterwards", () => {
  const path = join(folder, "a.safetensors");
  const events: string[] = [];
  function* pieces() {
    events.push("first begins");
    yield Uint8Array.of(1, 2);
    yield Uint8Array.of(3);
    events.push("first ends");
  }
  const second = () => {
    events.push("second");
    return Uint8Array.of(4);
  };
  writeSafetensors(path, [
    { name: "a", dtype: "U8", shape: [3], bytes: pieces },
    { name: "b", dtype: "U8", shape: [1], bytes: second },
  ]);
  expect(events).toEqual(["first begins", "first ends", "second"]);
  expect([...readFileSync(path).subarray(-4)]).toEqual([1, 2, 3, 4]);
});

test("an error leaves the old file as it was and nothing else", () => {
  const path = join(folder, "a.safetensors");
  writeFileSync(path, "old");
  const failing = () => {
    throw new Error("device lost");
  };
  expect(() => writeSafetensors(path, [{ name: "a", dtype: "U8", shape: [1], bytes: failing }])).toThrow("device lost");
  expect(readdirSync(folder)).toEqual(["a.safetensors"]);
  expect(readFileSync(path, "utf8")).toBe("old");
});

test("a tensor must give exactly its bytes", () => {
  const write = (bytes: () => Uint8Array | Iterable<Uint8Array>) =>
    writeSafetensors(join(folder, "a"), [{ name: "w", dtype: "F32", shape: [2], bytes }]);
  expect(() => write(() => new Uint8Array(4))).toThrow(/Tensor "w" gave 4 bytes but shape \[2\] of F32 needs 8/);
  expect(() => write(() => [new Uint8Array(8), new Uint8Array(1)])).toThrow(/gave at least 9 bytes/);
  expect(readdirSync(folder)).toEqual([]);
});

test("names must be unique and shapes whole", () => {
  const tensor = { name: "w", dtype: "U8" as const, shape: [0], bytes: () => new Uint8Array(0) };
  const write = (...tensors: (typeof tensor)[]) => writeSafetensors(join(folder, "a"), tensors);
  expect(() => write(tensor, tensor)).toThrow(/Tensor "w" is given twice/);
  expect(() => write({ ...tensor, name: "__metadata__" })).toThrow(/reserved name/);
  expect(() => write({ ...tensor, shape: [1.5] })).toThrow(/has shape \[1.5\]/);
  expect(() => write({ ...tensor, shape: [2 ** 40, 2 ** 40] })).toThrow(/below 2\^53/);
});
