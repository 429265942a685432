/**
 * A source that prefers prompts of the right difficulty, as measured on the way.
 *
 * It passes on the prompts of another source. One whose measured success rate lies outside of the band is skipped most of the
 * time: what always or never succeeds teaches nothing. It is still given with the chance `explore`, so that a prompt that has
 * become easier or harder is found again. New prompts are always given. In a mixture, put curricula around the parts: around
 * the whole it would bend the ratios.
 */
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue, Prompt } from "../flow/prompt.ts";
import { deriveSeed } from "../random/random.ts";
import { expectCount } from "./indexed-source.ts";
import type { PromptSource } from "./prompt-source.ts";
import { readPosition } from "./saved-position.ts";

/** The band, and how firmly it is kept. */
export interface CurriculumOptions {
  readonly seed: number;
  /** The total reward from which a trajectory has succeeded. Default 1. */
  readonly success?: number | undefined;
  /** Success rates that are worth training on, both ends included. Default 0.1 to 0.9. */
  readonly low?: number | undefined;
  readonly high?: number | undefined;
  /** The chance that a prompt outside of the band is given all the same. Above 0. Default 0.1. */
  readonly explore?: number | undefined;
  /** The weight of the newest measurement against those before. Default 0.5. */
  readonly newest?: number | undefined;
}

/** A source that learns: `record` is always there. */
type CurriculumSource = PromptSource & Required<Pick<PromptSource, "record">>;

const positionSchema = z.looseObject({
  numDrawn: z.int().min(0),
  records: z.array(z.tuple([z.string(), z.number().nullable()])),
  source: z.json(),
});

/** A source that skips prompts of another one. Its position holds all measurements. */
export function curriculum(source: PromptSource, options: CurriculumOptions): CurriculumSource {
  const { seed, success = 1, low = 0.1, high = 0.9, explore = 0.1, newest = 0.5 } = options;
  checkOptions(low, high, explore, newest);
  const making = { type: "curriculum", seed, success, low, high, explore, newest };
  let numDrawn = 0;
  /** The measured success rate of every prompt that was given; null while it is not known. */
  let records = new Map<string, number | null>();

  function isWanted(id: string): boolean {
    const rate = records.get(id) ?? null;
    if (rate === null || (rate >= low && rate <= high)) return true;
    return deriveSeed(seed, "explore", numDrawn) < explore * 2 ** 32;
  }

  return {
    ...(source.size !== undefined && { size: source.size }),
    next: async (count) => {
      expectCount(count);
      const prompts: Prompt[] = [];
      while (prompts.length < count) {
        const [prompt] = await source.next(1);
        if (prompt === undefined) break;
        numDrawn++;
        if (!isWanted(prompt.id)) continue;
        if (!records.has(prompt.id)) records.set(prompt.id, null);
        prompts.push(prompt);
      }
      return prompts;
    },
    position: () => ({ ...making, numDrawn, records: [...records], source: source.position() }),
    restore: async (position) => {
      const saved = readPosition(positionSchema, position, "The curriculum", making);
      await source.restore(saved.source as JsonValue);
      numDrawn = saved.numDrawn;
      records = new Map(saved.records);
    },
    record: (promptId, rewards) => {
      source.record?.(promptId, rewards);
      const before = records.get(promptId);
      if (before === undefined || rewards.length === 0) return;
      const successRate = rewards.filter((reward) => reward >= success).length / rewards.length;
      records.set(promptId, before === null ? successRate : before + newest * (successRate - before));
    },
  };
}

function checkOptions(low: number, high: number, explore: number, newest: number): void {
  const checks: readonly (readonly [boolean, string])[] = [
    [low >= 0 && low <= high && high <= 1, `low and high must hold 0 <= low <= high <= 1: got ${low} and ${high}.`],
    [
      explore > 0 && explore <= 1,
      `explore must be above 0 and at most 1: got ${explore}. With 0 a set that is all too easy would never give a prompt.`,
    ],
    [newest > 0 && newest <= 1, `newest must be above 0 and at most 1: got ${newest}.`],
  ];
  const failed = checks.find(([holds]) => !holds);
  if (failed) throw new RerollError("INVALID_ARGUMENT", failed[1], { low, high, explore, newest });
}
