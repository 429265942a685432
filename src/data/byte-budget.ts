/**
 * How much a set of prompts may hold.
 *
 * Rows are kept in memory: that is what makes a shuffle exact, and sets for reinforcement learning are small (a million
 * prompts of a kilobyte are one gigabyte). A set that would not fit is refused by name instead of ending in a heap error.
 */
import { RerollError } from "../errors/reroll-error.ts";

/** 1 GiB of text, which as rows fits the heap that Node has by default. */
export const DEFAULT_MAX_BYTES = 2 ** 30;

/** Counts what a set takes, over all of its files. */
export interface ByteBudget {
  /** Counts bytes of a file, unpacked. Throws when all files together exceed the limit. */
  spend(bytes: number, file: string): void;
}

/** A budget for the files of one set. */
export function createByteBudget(maxBytes: number = DEFAULT_MAX_BYTES): ByteBudget {
  let spent = 0;
  return {
    spend: (bytes, file) => {
      spent += bytes;
      if (spent <= maxBytes) return;
      throw new RerollError(
        "DATA_TOO_LARGE",
        `${file} is too large to be held in memory: at least ${spent} bytes with the files before it. maxBytes allows ${maxBytes}. ` +
          "Sample or split the file, or raise maxBytes together with node's --max-old-space-size.",
        { file, spent, maxBytes },
      );
    },
  };
}
