/**
 * A tiny language of sums, one token per digit: 37 + 84 = 121 reads "7 3 + 4 8 = 1 2 1 .", units first, so that a carry is
 * known before it is needed.
 *
 * The two numbers come from the prompt's seed. The reward is 1 for the exact sum and 0 for everything else. Sums are split by
 * what they are and not by seed: there are few of them, and other seeds would draw the same ones again.
 */

import type { EnvFactory, EnvStep, Opening, Reply, TextEnv } from "reroll";
import { deriveSeed, Random, RerollError } from "reroll";

const digits = "0123456789";

class SumEnv implements TextEnv {
  readonly #question: string;
  readonly #answer: string;
  #hasEnded = false;

  constructor(left: number, right: number) {
    this.#question = `${write(left)} + ${write(right)} =`;
    this.#answer = `${write(left + right)} .`;
  }

  start(): Opening {
    const messages = [{ role: "user", content: this.#question }];
    return { instructions: [], observation: { messages, stateKey: this.#question } };
  }

  step({ text }: Reply): EnvStep {
    if (this.#hasEnded) throw new RerollError("EPISODE_ENDED", "A sum is answered once.");
    this.#hasEnded = true;
    const success = Number(text.split(" ").join("") === this.#answer.split(" ").join(""));
    return { kind: "terminated", reward: success, metrics: { success } };
  }

  randomReply = (random: Random) => `${write(random.integer(199))} .`;
  oracleReply = () => this.#answer;
  render = () => `${this.#question} ${this.#answer}`;
}

export interface SumOptions {
  /** Digits of each number at most. Default 2. */
  readonly numDigits?: number;
  /** A fifth of all sums is never in `train`, the default; `validation` has no others. */
  readonly part?: "train" | "validation";
}

/** Sums of two numbers. */
export function sums({ numDigits = 2, part = "train" }: SumOptions = {}): EnvFactory {
  return {
    words: { words: [...digits, "+", "=", "."], endWords: ["."] },
    makePrompt: (seed) => ({ id: `sums/${seed}`, domain: "sums", seed, messages: [], truth: null, extra: {} }),
    makeEnv: ({ seed }) => {
      const random = new Random(seed);
      const draw = () => random.integer(10 ** numDigits);
      for (;;) {
        const [left, right] = [draw(), draw()];
        if (partOf(left, right) === part) return new SumEnv(left, right);
      }
    },
  };
}

/** The same for both orders: who knows 3 + 8 need not add to answer 8 + 3. */
function partOf(left: number, right: number): "train" | "validation" {
  const seed = deriveSeed(0, Math.min(left, right), Math.max(left, right));
  return new Random(seed).integer(5) === 0 ? "validation" : "train";
}

function write(number: number): string {
  return [...String(number)].reverse().join(" ");
}
