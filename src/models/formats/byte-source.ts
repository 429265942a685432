/** Bytes that can be read at any place: a file on disk, or a buffer in a test. */
export interface ByteSource {
  /** For messages. */
  readonly name: string;
  readonly size: number;
  /** Exactly `length` bytes from `position`; the caller asks only for what lies within `size`. */
  read(position: number, length: number): Uint8Array;
}
