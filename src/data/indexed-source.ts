/**
 * A source over prompts that can be had by index: pass after pass, each in an order of its own.
 *
 * The order of a pass follows from the seed and the number of the pass, so a position is two numbers.
 */
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue, Prompt } from "../flow/prompt.ts";
import { deriveSeed, Random } from "../random/random.ts";
import type { PromptSource } from "./prompt-source.ts";
import { readPosition } from "./saved-position.ts";

/** Prompts by index, all at hand or made when asked for. */
interface IndexedPrompts {
  readonly size: number;
  promptAt(index: number): Prompt | Promise<Prompt>;
  /** Tells these prompts from others; becomes part of the position. */
  readonly making: Readonly<Record<string, JsonValue>>;
  /** For error messages. */
  readonly title: string;
}

/** How often and in what order the prompts are gone through. */
export interface PassOptions {
  readonly seed: number;
  /** Passes over all prompts. Default: without end. */
  readonly epochs?: number | undefined;
  /** Default true: a new order in each pass. */
  readonly isShuffled?: boolean | undefined;
}

/** A source over indexed prompts. Its position holds for the same `making`, size and seed. */
export function indexedSource(set: IndexedPrompts, options: PassOptions): PromptSource {
  const { seed, epochs = Number.POSITIVE_INFINITY, isShuffled = true } = options;
  const making = { ...set.making, size: set.size, shuffle: isShuffled ? seed : null };
  const positionSchema = z.looseObject({ epoch: z.int().min(0), index: z.int().min(0).lt(set.size) });
  let epoch = 0;
  let index = 0;
  let order = isShuffled ? orderOf(0) : null;

  function orderOf(pass: number): number[] {
    const indices = Array.from({ length: set.size }, (_, i) => i);
    return new Random(deriveSeed(seed, "epoch", pass)).shuffled(indices);
  }

  function goTo(nextEpoch: number, nextIndex: number): void {
    if (isShuffled && nextEpoch !== epoch) order = orderOf(nextEpoch);
    epoch = nextEpoch;
    index = nextIndex;
  }

  return {
    size: set.size,
    next: async (count) => {
      expectCount(count);
      const prompts: Prompt[] = [];
      while (prompts.length < count && epoch < epochs) {
        const place = order ? order[index]! : index;
        // Before it is made: a prompt that cannot be is not asked for again.
        if (index + 1 < set.size) index++;
        else goTo(epoch + 1, 0);
        prompts.push(await set.promptAt(place));
      }
      return prompts;
    },
    position: () => ({ ...making, epoch, index }),
    restore: async (position) => {
      const saved = readPosition(positionSchema, position, set.title, making);
      goTo(saved.epoch, saved.index);
    },
  };
}

/** Throws unless a number of prompts can be asked for. */
export function expectCount(count: number): void {
  if (Number.isSafeInteger(count) && count >= 0) return;
  throw new RerollError("INVALID_ARGUMENT", `next needs a whole number of prompts, 0 or more: got ${count}.`, {
    count,
  });
}
