/**
 * Several sources in one, by ratios that hold exactly.
 *
 * Who is next is a schedule and not a draw: after any number of prompts each part has given its share to less than one prompt,
 * so any window is off by less than two.
 */
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue, Prompt } from "../flow/prompt.ts";
import { expectCount } from "./indexed-source.ts";
import type { PromptSource } from "./prompt-source.ts";
import { readPosition } from "./saved-position.ts";

/** A source and its share. */
interface MixPart {
  /** Any number above 0; only its share of the sum counts. */
  readonly ratio: number;
  readonly source: PromptSource;
}

/** Options of a mixture. */
interface MixOptions {
  /**
   * What happens when it is the turn of a part that is over. `stop` (default): the mixture is over, and ratios held to the
   * end. `drop`: the others go on by their ratios until all are over, as an evaluation of everything wants it.
   */
  readonly whenPartEnds?: "stop" | "drop" | undefined;
}

const positionSchema = z.looseObject({
  given: z.array(z.int().min(0)),
  isOver: z.array(z.boolean()),
  parts: z.array(z.json()),
});

/** A source that takes its prompts from the parts in turn. What it is told by `record` it tells all parts. */
export function mixSources(parts: readonly MixPart[], { whenPartEnds = "stop" }: MixOptions = {}): PromptSource {
  checkParts(parts);
  const ratios = parts.map(({ ratio }) => ratio);
  const making = { type: "mix", ratios, whenPartEnds };
  const sizes = parts.map(({ source }) => source.size);
  /** Prompts of each part since the last change of who takes part. */
  let given = parts.map(() => 0);
  let isOver = parts.map(() => false);

  async function nextOne(): Promise<Prompt | null> {
    while (!isOver.every(Boolean)) {
      const turn = nextTurn(
        ratios.map((ratio, i) => (isOver[i] ? 0 : ratio)),
        given,
      );
      const [prompt] = await parts[turn]!.source.next(1);
      if (prompt !== undefined) {
        given[turn]!++;
        return prompt;
      }
      isOver = isOver.map((was, i) => was || whenPartEnds === "stop" || i === turn);
      given = parts.map(() => 0);
    }
    return null;
  }

  return {
    ...(sizes.every((size) => size !== undefined) && { size: sizes.reduce((sum, size) => sum + size, 0) }),
    next: async (count) => {
      expectCount(count);
      const prompts: Prompt[] = [];
      while (prompts.length < count) {
        const prompt = await nextOne();
        if (prompt === null) break;
        prompts.push(prompt);
      }
      return prompts;
    },
    position: () => ({ ...making, given: [...given], isOver: [...isOver], parts: parts.map(positionOf) }),
    restore: async (position) => {
      const saved = readPosition(positionSchema, position, "The mixture", making);
      await Promise.all(parts.map(({ source }, i) => source.restore(saved.parts[i] as JsonValue)));
      given = saved.given;
      isOver = saved.isOver;
    },
    record: (promptId, rewards) => {
      for (const { source } of parts) source.record?.(promptId, rewards);
    },
  };
}

/**
 * Whose turn it is, given what each part has had. Tijdeman's rule: of the parts that are behind by at least 1/(2n - 2), the one
 * that would first be a whole 1 - 1/(2n - 2) behind. No part is ever off by more than that ("The chairman assignment problem",
 * Discrete Mathematics 32, 1980). A ratio of 0 takes no part.
 */
export function nextTurn(ratios: readonly number[], given: readonly number[]): number {
  const sum = ratios.reduce((total, ratio) => total + ratio, 0);
  const turn = given.reduce((total, count) => total + count, 1);
  const numParts = ratios.filter((ratio) => ratio > 0).length;
  const margin = numParts > 1 ? 1 / (2 * numParts - 2) : 1;
  let best = -1;
  let bestDeadline = Number.POSITIVE_INFINITY;
  ratios.forEach((ratio, i) => {
    if (ratio === 0) return;
    const behind = (ratio * turn - sum * given[i]!) / sum;
    const deadline = ((1 - margin - behind) * sum) / ratio;
    // Some part is behind by 1/n or more, which two equal parts meet exactly: leave room for rounding.
    if (behind < margin - 1e-9 || deadline >= bestDeadline) return;
    best = i;
    bestDeadline = deadline;
  });
  return best;
}

function positionOf({ source }: MixPart): JsonValue {
  return source.position();
}

function checkParts(parts: readonly MixPart[]): void {
  if (parts.length === 0) throw new RerollError("INVALID_ARGUMENT", "A mixture needs at least one part: got none.");
  parts.forEach(({ ratio }, i) => {
    if (Number.isFinite(ratio) && ratio > 0) return;
    throw new RerollError("INVALID_ARGUMENT", `parts.${i}.ratio must be a number above 0: got ${ratio}.`, { ratio });
  });
}
