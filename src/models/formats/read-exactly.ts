import { readSync } from "node:fs";
import { RerollError } from "../../errors/reroll-error.ts";

/**
 * Fills `target` with the bytes at `position`, in as many reads as the system needs.
 * Throws when the file ends first, which means that it shrank after its size was taken.
 */
export function readExactly(descriptor: number, target: Uint8Array, position: number, fileName: string): void {
  let filled = 0;
  while (filled < target.byteLength) {
    const length = Math.min(target.byteLength - filled, maxReadBytes);
    const count = readSync(descriptor, target, filled, length, position + filled);
    if (count === 0) {
      throw new RerollError(
        "FILE_TRUNCATED",
        `${fileName} ended at byte ${position + filled}, ${target.byteLength - filled} bytes short. ` +
          "It changed while it was being read; wait for the program that writes it.",
        { fileName, position: position + filled, missing: target.byteLength - filled },
      );
    }
    filled += count;
  }
}

/** One read call takes at most 2 GiB - 1 in Node; 1 GiB keeps clear of that. */
const maxReadBytes = 2 ** 30;
