/**
 * TFRecord framing: each record with its length and two checksums.
 *
 * A record is: length (8 bytes), masked CRC of the length (4), the data, masked CRC of the data (4); little-endian. The CRC is
 * CRC-32C (Castagnoli, reversed polynomial 0x82F63B78).
 */
import { RerollError } from "../errors/reroll-error.ts";

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});

/** CRC-32C of the bytes. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return ~crc >>> 0;
}

/** One record, ready to be appended to a file. */
export function frameRecord(data: Uint8Array): Buffer {
  const framed = Buffer.alloc(data.length + 16);
  framed.writeBigUInt64LE(BigInt(data.length), 0);
  framed.writeUInt32LE(masked(framed.subarray(0, 8)), 8);
  framed.set(data, 12);
  framed.writeUInt32LE(masked(data), 12 + data.length);
  return framed;
}

/** The records of a file. A torn last one is left out; a wrong checksum throws. */
export function readRecords(bytes: Buffer): readonly Buffer[] {
  const records: Buffer[] = [];
  let place = 0;
  while (place + 16 <= bytes.length) {
    const length = Number(bytes.readBigUInt64LE(place));
    if (bytes.readUInt32LE(place + 8) !== masked(bytes.subarray(place, place + 8))) throw corrupt(place);
    if (place + 16 + length > bytes.length) break;
    const data = bytes.subarray(place + 12, place + 12 + length);
    if (bytes.readUInt32LE(place + 12 + length) !== masked(data)) throw corrupt(place);
    records.push(data);
    place += 16 + length;
  }
  return records;
}

/** Rotated and shifted, so that a CRC of data that holds CRCs is still a good one. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

function corrupt(place: number): RerollError {
  return new RerollError("CORRUPT_RECORD", `The record at byte ${place} has a wrong checksum.`, { place });
}
