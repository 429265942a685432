import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { MappedFile } from "./mapped-file.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-mapped-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A file with these bytes. */
function fileOf(name: string, data: Uint8Array | Float32Array): string {
  const path = join(folder, name);
  writeFileSync(path, data);
  return path;
}

const path = fileOf("floats", new Float32Array([1, 2, 3, 4, 5, 6]));

test("a tensor over a file has the values of its bytes, from an offset on", () => {
  const file = new MappedFile(path);
  expect(file.size).toBe(24);
  expect(file.tensorAt(0, "float32", [2, 3]).toArray()).toEqual([1, 2, 3, 4, 5, 6]);
  expect(file.tensorAt(8, "float32", [2]).toArray()).toEqual([3, 4]);
  expect(file.tensorAt(0, "uint8", [4]).toArray()).toEqual([0, 0, 0x80, 0x3f]);
  expect(file.tensorAt(24, "float32", [0]).toArray()).toEqual([]);
});

test("bytes that are not aligned for the type are copied", () => {
  const shifted = fileOf("shifted", new Uint8Array([9, ...new Uint8Array(new Float32Array([7, 8]).buffer)]));
  expect(new MappedFile(shifted).tensorAt(1, "float32", [2]).toArray()).toEqual([7, 8]);
});

test("two tensors over one file share its memory, and writing changes no file", () => {
  const file = new MappedFile(path);
  const first = file.tensorAt(0, "float32", [2]);
  first.fill_(9);
  expect(file.tensorAt(0, "float32", [3]).toArray()).toEqual([9, 9, 3]);
  expect(new MappedFile(path).tensorAt(0, "float32", [2]).toArray()).toEqual([1, 2]);
});

test("a tensor outlives the file object it came from", () => {
  const file = new MappedFile(path);
  const held = file.tensorAt(4, "float32", [2]);
  file.dispose();
  expect(held.toArray()).toEqual([2, 3]);
  expect(() => file.tensorAt(0, "float32", [1])).toThrow(/this MappedFile was disposed/);
});

test("what does not fit in the file is refused, also where the product of the shape overflows", () => {
  const file = new MappedFile(path);
  const refused: readonly [number, number[]][] = [
    [0, [7]],
    [4, [6]],
    [25, [0]],
    [-4, [1]],
    [0, [-1]],
    [0, [2 ** 32, 2 ** 32]],
    [0, [2 ** 53]],
  ];
  for (const [offset, shape] of refused) {
    expect(() => file.tensorAt(offset, "float32", shape)).toThrow(/does not fit in .*floats, which has 24 bytes/);
  }
  expect(() => file.tensorAt(0.5, "float32", [1])).toThrow(/argument 'offset' must be an integer/);
});

test("an empty file has no values", () => {
  const file = new MappedFile(fileOf("empty", new Uint8Array()));
  expect(file.size).toBe(0);
  expect(file.tensorAt(0, "float32", [0, 3]).shape).toEqual([0, 3]);
  expect(() => file.tensorAt(0, "float32", [1])).toThrow(/does not fit/);
});

test("what is no file is refused with its path", () => {
  expect(() => new MappedFile(join(folder, "missing"))).toThrow(/cannot open .*missing: No such file or directory/);
  expect(() => new MappedFile(folder)).toThrow(/is not a regular file/);
  expect(() => new MappedFile("/dev/zero")).toThrow(/is not a regular file/);
});
