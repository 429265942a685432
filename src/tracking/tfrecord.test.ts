import fc from "fast-check";
import { expect, test } from "vitest";
import { crc32c, frameRecord, readRecords } from "./tfrecord.ts";

test("crc32c gives the check values of RFC 3720, B.4", () => {
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
  expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd794e);
});

test("a record has length, checksum, data, checksum", () => {
  const framed = frameRecord(Buffer.from("ab"));
  expect(framed.subarray(0, 8)).toEqual(Buffer.from([2, 0, 0, 0, 0, 0, 0, 0]));
  expect(framed.subarray(12, 14).toString()).toBe("ab");
  expect(framed).toHaveLength(18);
});

test("any records are read back, and a torn last one is left out", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { minLength: 1 }), fc.nat(), (records, cut) => {
      const file = Buffer.concat(records.map(frameRecord));
      expect(readRecords(file).map((record) => [...record])).toEqual(records.map((record) => [...record]));
      const torn = file.subarray(0, file.length - 1 - (cut % (records.at(-1)!.length + 15)));
      expect(readRecords(torn)).toHaveLength(records.length - 1);
    }),
  );
});

test("a flipped bit is found", () => {
  const framed = frameRecord(Buffer.from("abc"));
  framed[13]! ^= 1;
  expect(() => readRecords(framed)).toThrow(/record at byte 0 has a wrong checksum/);
});
