import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type SafetensorsDtype,
  safetensorsDtypeBytes,
} from "../../src/models/formats/safetensors/safetensors-dtype.ts";
import {
  parseSafetensorsHeader,
  type SafetensorsHeader,
} from "../../src/models/formats/safetensors/safetensors-header.ts";
import { parseShardedIndex } from "../../src/models/formats/safetensors/sharded-index.ts";
import { writeSafetensors } from "../../src/models/formats/safetensors/write-safetensors.ts";
import { damaged, readOrRefuse, runFuzz } from "./fuzz.ts";

function fileBytes(json: string, dataBytes: number, headerLength?: bigint): Uint8Array {
  const text = new TextEncoder().encode(json);
  const bytes = new Uint8Array(8 + text.byteLength + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, headerLength ?? BigInt(text.byteLength), true);
  bytes.set(text, 8);
  return bytes;
}

/** Everything a parsed header promises, checked without the parser's own code. */
function expectSound(header: SafetensorsHeader, bytes: Uint8Array): void {
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, header.dataOffset));
  const json = JSON.parse(text);
  const { __metadata__: metadata = {}, ...entries } = json;
  expect(header.metadata).toEqual(metadata);
  expect([...header.tensors.keys()].sort()).toEqual(Object.keys(entries).sort());
  expect(text.split('"dtype"').length - 1, "no tensor is hidden by another of its name").toBe(header.tensors.size);
  let end = 0;
  for (const [name, tensor] of header.tensors) {
    expect(entries[name]).toEqual({
      dtype: tensor.dtype,
      shape: tensor.shape,
      data_offsets: [tensor.start, tensor.end],
    });
    expect(tensor.start).toBe(end);
    const values = tensor.shape.reduce((product, size) => product * size, 1);
    expect(tensor.end - tensor.start).toBe(values * safetensorsDtypeBytes[tensor.dtype]);
    end = tensor.end;
  }
  expect(header.dataOffset + end).toBe(bytes.byteLength);
}

function check(bytes: Uint8Array): void {
  const header = readOrRefuse(() => parseSafetensorsHeader(bytes, bytes.byteLength, "fuzz.safetensors"));
  if (header !== null) expectSound(header, bytes);
}

const valid = fileBytes(
  '{"__metadata__":{"format":"pt","note":"\\u00e4\\n"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},' +
    '"b.weight":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"c":{"dtype":"BOOL","shape":[],"data_offsets":[32,33]}}  ',
  33,
);

test("a damaged safetensors file is refused or read correctly", () => {
  expect(() => check(valid)).not.toThrow();
  runFuzz(damaged(valid, valid.length - 33), check);
});

test("a safetensors header that lies in single fields is refused or read correctly", () => {
  const number = fc.oneof(fc.nat(40), fc.constantFrom(2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 1e20, -1, 0.5));
  const entry = fc.record(
    {
      dtype: fc.oneof(
        fc.constantFrom(...Object.keys(safetensorsDtypeBytes)),
        fc.constantFrom("F4", "toString", "", 7, null),
      ),
      shape: fc.oneof(
        { weight: 5, arbitrary: fc.array(number, { maxLength: 4 }) },
        fc.constantFrom(null, 3, [[1]], ["1"]),
      ),
      data_offsets: fc.oneof(
        { weight: 5, arbitrary: fc.array(number, { maxLength: 3 }) },
        fc.constantFrom(null, {}, "0"),
      ),
      extra: fc.constantFrom(1, null),
    },
    { requiredKeys: ["dtype", "shape", "data_offsets"] },
  );
  const name = fc.oneof(
    fc.constantFrom("a", "b", "__metadata__", "__proto__", "constructor"),
    fc.string({ unit: "binary" }),
  );
  const claim = fc.oneof(
    fc.constant(undefined),
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    fc.bigInt({ min: 0n, max: 300n }),
  );
  const files = fc
    .tuple(
      fc.array(fc.tuple(name, fc.oneof({ weight: 9, arbitrary: entry }, fc.jsonValue())), { maxLength: 4 }),
      fc.nat(64),
      claim,
    )
    .map(([pairs, dataBytes, length]) => {
      const members = pairs.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
      return fileBytes(`{${members.join(",")}}`, dataBytes, length);
    });
  runFuzz(files, check);
});

const dtypes = fc.constantFrom<SafetensorsDtype>("F64", "F32", "F16", "BF16", "F8_E4M3", "I64", "U16", "U8", "BOOL");
const tensorLists = fc.uniqueArray(
  fc.tuple(fc.string({ unit: "grapheme" }), dtypes, fc.array(fc.nat(3), { maxLength: 4 })),
  {
    selector: ([name]) => name,
    maxLength: 6,
  },
);

/** Entries that follow each other without a hole, and how many bytes of data they take. */
function layOut(list: readonly [string, SafetensorsDtype, number[]][]) {
  let end = 0;
  const entries = list.map(([name, dtype, shape]) => {
    const start = end;
    end += shape.reduce((product, size) => product * size, safetensorsDtypeBytes[dtype]);
    return { name, dtype, shape, data_offsets: [start, end] };
  });
  return { entries, dataBytes: end };
}

test("a true safetensors header is read, whatever its tensors and spaces", () => {
  const space = fc.constantFrom("", " ", "\n\t", "  \r\n");
  runFuzz(fc.tuple(tensorLists, space), ([list, gap]) => {
    const { entries, dataBytes } = layOut(list);
    const members = entries.map(
      ({ name, dtype, shape, data_offsets }) =>
        `${gap}${JSON.stringify(name)}${gap}:${gap}{"shape":${JSON.stringify(shape)}${gap},` +
        `"data_offsets":[${data_offsets}],${gap}"dtype":"${dtype}"}`,
    );
    const bytes = fileBytes(`{${members.join(",")}${gap}}${gap}`, dataBytes);
    const header = parseSafetensorsHeader(bytes, bytes.byteLength, "fuzz.safetensors");
    expect(header.tensors.size).toBe(list.length);
    expectSound(header, bytes);
  });
});

test("a true safetensors header with one or two changed numbers or names is refused or read correctly", () => {
  const small = fc.integer({ min: -8, max: 8 });
  const lies = fc.array(
    fc.tuple(fc.constantFrom("start", "end", "both", "shape", "name", "rest", "data"), fc.nat(), small),
    {
      minLength: 1,
      maxLength: 2,
    },
  );
  runFuzz(fc.tuple(tensorLists, lies), ([list, changes]) => {
    const { entries, dataBytes } = layOut(list);
    let size = dataBytes;
    for (const [kind, which, delta] of changes) {
      const index = which % Math.max(entries.length, 1);
      const entry = entries[index];
      if (kind === "data") size = Math.max(0, size + delta);
      if (entry === undefined) continue;
      if (kind === "start" || kind === "both") entry.data_offsets[0]! += delta;
      if (kind === "end" || kind === "both") entry.data_offsets[1]! += delta;
      if (kind === "shape" && entry.shape.length > 0) entry.shape[which % entry.shape.length]! += delta;
      if (kind === "name") entry.name = entries[(index + 1) % entries.length]!.name;
      // A hole with the file as long as the last tensor says, which only a look at the gaps finds.
      if (kind === "rest") {
        for (const later of entries.slice(index))
          later.data_offsets = later.data_offsets.map((offset) => offset + delta);
        size = Math.max(0, size + delta);
      }
    }
    const members = entries.map(({ name, ...entry }) => `${JSON.stringify(name)}:${JSON.stringify(entry)}`);
    check(fileBytes(`{${members.join(",")}}`, size));
  });
});

test("what is written is read back", () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-fuzz-"));
  const path = join(folder, "a.safetensors");
  const metadata = fc.dictionary(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme" }), {
    noNullPrototype: true,
  });
  runFuzz(fc.tuple(tensorLists, metadata), ([list, notes]) => {
    const sources = list.map(([name, dtype, shape], index) => {
      const size = shape.reduce((product, length) => product * length, safetensorsDtypeBytes[dtype]);
      return { name, dtype, shape, bytes: () => new Uint8Array(size).fill(index + 1) };
    });
    writeSafetensors(path, sources, notes);
    const bytes = new Uint8Array(readFileSync(path));
    const header = parseSafetensorsHeader(bytes, bytes.byteLength, "a");
    expect(header.metadata).toEqual(notes);
    for (const source of sources) {
      const place = header.tensors.get(source.name);
      expect(place).toMatchObject({ dtype: source.dtype, shape: source.shape, isAligned: true });
      const stored = bytes.subarray(header.dataOffset + place!.start, header.dataOffset + place!.end);
      expect(Buffer.compare(stored, source.bytes())).toBe(0);
    }
  });
  rmSync(folder, { recursive: true });
});

test("a damaged index is refused or read", () => {
  const text =
    '{"metadata":{"total_size":12.0},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"x.safetensors"}}';
  runFuzz(damaged(new TextEncoder().encode(text), text.length), (bytes) => {
    const index = readOrRefuse(() => parseShardedIndex(new TextDecoder().decode(bytes), "fuzz.json"));
    for (const shard of index?.weightMap.values() ?? []) expect(shard).toMatch(/^[\w.-]+\.safetensors$/);
  });
});
