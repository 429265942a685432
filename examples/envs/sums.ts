/**
 * A tiny language of sums, one token per digit: 37 + 84 = 121 reads "7 3 + 4 8 = 1 2 1 .", units first, so that a carry is
 * known before it is needed.
 *
 * The two numbers come from the prompt's seed. The reward is 1 for the exact sum and 0 for everything else.
 */
import { type EnvFactory, type EnvStep, type Opening, Random, type Reply, RerollError, type TextEnv } from "reroll";

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

/** Sums of two numbers with up to `numDigits` digits. */
export function sums({ numDigits = 2 }: { readonly numDigits?: number } = {}): EnvFactory {
  return {
    words: { words: [...digits, "+", "=", "."], endWords: ["."] },
    makePrompt: (seed) => ({ id: `sums/${seed}`, domain: "sums", seed, messages: [], truth: null, extra: {} }),
    makeEnv: ({ seed }) => {
      const random = new Random(seed);
      return new SumEnv(random.integer(10 ** numDigits), random.integer(10 ** numDigits));
    },
  };
}

function write(number: number): string {
  return [...String(number)].reverse().join(" ");
}
