/**
 * A task that a model of 0.1M parameters learns from nothing in seconds: say a few digits in descending order.
 *
 * The reward is the share of places that are right. `latencyMs` makes it an environment that is waited for, such as a browser or a
 * test suite: between half and one and a half times as long, by the seed of the episode.
 */
import { setTimeout } from "node:timers/promises";
import type { EnvFactory, EnvStep, Reply } from "../src/envs/text-env.ts";
import { Random } from "../src/random/random.ts";

export interface SortDigitsOptions {
  readonly numDigits: number;
  /** Digits are below this. */
  readonly base: number;
  readonly latencyMs?: number;
}

/** Replies must be `numDigits` tokens long: nothing else ends them. */
export function sortDigits({ numDigits, base, latencyMs = 0 }: SortDigitsOptions): EnvFactory {
  const digits = Array.from({ length: base }, (_, digit) => String(digit));
  return {
    words: { words: [...digits, "="], endWords: [] },
    makePrompt: (seed) => ({ id: `sort/${seed}`, domain: "sort", seed, messages: [], truth: null, extra: {} }),
    makeEnv: ({ seed }, episodeSeed) => {
      const random = new Random(seed);
      const given = Array.from({ length: numDigits }, () => random.pick(digits));
      return {
        start: () => ({
          instructions: [],
          observation: { messages: [{ role: "user", content: `${given.join(" ")} =` }] },
        }),
        step: async (reply) => {
          if (latencyMs > 0) await setTimeout(latencyMs * (0.5 + new Random(episodeSeed).uniform()));
          return grade(reply, given.toSorted().toReversed());
        },
      };
    },
  };
}

function grade({ text }: Reply, truth: readonly string[]): EnvStep {
  const said = text.split(" ");
  const numRight = truth.filter((digit, place) => said[place] === digit).length;
  return {
    kind: "terminated",
    reward: numRight / truth.length,
    metrics: { success: Number(numRight === truth.length) },
  };
}
