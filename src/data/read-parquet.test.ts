import { brotliCompressSync, gzipSync } from "node:zlib";
import { parquetWriteBuffer } from "hyparquet-writer";
import { describe, expect, test } from "vitest";
import { collect } from "../../test/data/collect.ts";
import { temporaryFolder } from "../../test/data/temporary-folder.ts";
import { createByteBudget } from "./byte-budget.ts";
import { readParquet } from "./read-parquet.ts";

const folder = temporaryFolder();

function read(file: string, maxBytes?: number) {
  return collect(readParquet(file, createByteBudget(maxBytes)));
}

function write(options: Parameters<typeof parquetWriteBuffer>[0]): string {
  return folder.write("file.parquet", new Uint8Array(parquetWriteBuffer(options)));
}

/** A valid LZ4 block that holds its bytes as they are. */
function lz4Literals(bytes: Uint8Array): Uint8Array {
  const more = bytes.length - 15;
  const length =
    more < 0 ? [bytes.length << 4] : [0xf0, ...new Array<number>(Math.floor(more / 255)).fill(255), more % 255];
  return Uint8Array.from([...length, ...bytes]);
}

/** A valid Zstandard frame of one raw block. Its size, below 64 KiB, stands in four bytes. */
function zstdRaw(bytes: Uint8Array): Uint8Array {
  const size = Buffer.alloc(4);
  size.writeUInt32LE(bytes.length);
  const block = Buffer.alloc(4);
  block.writeUInt32LE(bytes.length * 8 + 1);
  return Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, ...size, ...block.subarray(0, 3), ...bytes]);
}

describe("compressions", () => {
  const texts = Array.from({ length: 200 }, (_, i) => `row ${i} ${"ab".repeat(i % 7)}`);
  test.each([
    ["UNCOMPRESSED", {}],
    ["SNAPPY", {}],
    ["GZIP", { GZIP: (bytes: Uint8Array) => gzipSync(bytes) }],
    ["BROTLI", { BROTLI: (bytes: Uint8Array) => brotliCompressSync(bytes) }],
    ["LZ4_RAW", { LZ4_RAW: lz4Literals }],
    ["ZSTD", { ZSTD: zstdRaw }],
  ] as const)("%s gives back what was written", async (codec, compressors) => {
    const file = write({ columnData: [{ name: "text", data: texts, type: "STRING" }], codec, compressors });
    expect(await read(file)).toEqual(texts.map((text) => ({ text })));
  });
});

test("nested columns read as lists and objects, as verl writes its rows", async () => {
  const prompt = [
    [
      { role: "system", content: "Be brief." },
      { role: "user", content: "1 + 1?" },
    ],
    [{ role: "user", content: "2 + 2?" }],
  ];
  const rewardModel = [
    { style: "rule", ground_truth: "2" },
    { style: "rule", ground_truth: "4" },
  ];
  const text = { type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" } as const;
  const file = write({
    columnData: [
      { name: "prompt", data: prompt },
      { name: "reward_model", data: rewardModel },
    ],
    schema: [
      { name: "root", num_children: 2 },
      { name: "prompt", repetition_type: "OPTIONAL", num_children: 1, converted_type: "LIST" },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      { name: "element", repetition_type: "OPTIONAL", num_children: 2 },
      { name: "role", ...text },
      { name: "content", ...text },
      { name: "reward_model", repetition_type: "OPTIONAL", num_children: 2 },
      { name: "style", ...text },
      { name: "ground_truth", ...text },
    ],
  });
  expect(await read(file)).toEqual([
    { prompt: prompt[0], reward_model: rewardModel[0] },
    { prompt: prompt[1], reward_model: rewardModel[1] },
  ]);
});

test("values become JSON: large whole numbers are text, dates ISO text, bytes base64, not-a-number null", async () => {
  const file = write({
    columnData: [
      { name: "small", data: [5n, -7n], type: "INT64" },
      { name: "large", data: [2n ** 53n, 2n ** 53n - 1n], type: "INT64" },
      { name: "date", data: [new Date(0), null], type: "TIMESTAMP" },
      { name: "number", data: [Number.NaN, 0.5], type: "DOUBLE" },
      { name: "flag", data: [true, false], type: "BOOLEAN" },
      { name: "json", data: [{ a: [1, null] }, "text"], type: "JSON" },
    ],
  });
  expect(await read(file)).toEqual([
    {
      small: 5,
      large: "9007199254740992",
      date: "1970-01-01T00:00:00.000Z",
      number: null,
      flag: true,
      json: { a: [1, null] },
    },
    { small: -7, large: 9007199254740991, date: null, number: 0.5, flag: false, json: "text" },
  ]);
});

test.each([true, false])(
  "rows keep their order over row groups and pieces, with an index of pages: %s",
  async (offsetIndex) => {
    const data = Array.from({ length: 20_000 }, (_, i) => i);
    const columnData = [{ name: "i", data, type: "INT32" as const, offsetIndex }];
    const file = write({ columnData, rowGroupSize: [1000, 17_000], pageSize: 4096 });
    expect((await read(file)).map(({ i }) => i)).toEqual(data);
  },
);

test("the event loop turns while rows are read", async () => {
  const data = Array.from({ length: 20_000 }, (_, i) => i);
  const file = write({ columnData: [{ name: "i", data, type: "INT32" }] });
  let numTurns = 0;
  const timer = setInterval(() => numTurns++, 0);
  await read(file);
  clearInterval(timer);
  expect(numTurns).toBeGreaterThan(3);
});

test("a file that is cut off, empty or no Parquet is an error that names it", async () => {
  const whole = parquetWriteBuffer({ columnData: [{ name: "a", data: [1, 2, 3] }] });
  const cut = folder.write("cut.parquet", new Uint8Array(whole, 0, whole.byteLength - 10));
  await expect(read(cut)).rejects.toThrow(/cut\.parquet cannot be read as Parquet: /);
  const empty = folder.write("empty.parquet", "");
  await expect(read(empty)).rejects.toMatchObject({ code: "DATA_UNREADABLE" });
});

describe("one flipped bit", () => {
  const whole = new Uint8Array(
    parquetWriteBuffer({
      columnData: [
        { name: "a", data: Array.from({ length: 300 }, (_, i) => `row ${i % 17}`), type: "STRING" },
        { name: "n", data: Array.from({ length: 300 }, (_, i) => i), type: "INT32" },
      ],
      codec: "SNAPPY",
    }),
  );

  // The first two make the decoder count without end, the others change the number of rows. All were found by trying every bit.
  test.each([903, 1935, 12_974, 13_003])("bit %i ends in a clear error, and in time", async (bit) => {
    const bytes = whole.slice();
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    const file = folder.write("flipped.parquet", bytes);
    await expect(collect(readParquet(file, createByteBudget(), 1_500))).rejects.toMatchObject({
      code: "DATA_UNREADABLE",
    });
  });
});

test("a file that says it unpacks to more than the limit is refused before it is read", async () => {
  const data = Array.from({ length: 1000 }, (_, i) => String(i).padEnd(100));
  const file = write({ columnData: [{ name: "a", data, type: "STRING" }], codec: "UNCOMPRESSED" });
  await expect(read(file, 50_000)).rejects.toMatchObject({ code: "DATA_TOO_LARGE" });
});
