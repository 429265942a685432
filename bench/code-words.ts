/**
 * A task that cannot be guessed: every key has a code word, and only the words say which. A word is one token, and so is a reply.
 *
 * "key k3" is answered by the code word of k3. A hint, "hint w7", names the word; "answer w7" names it after a try.
 */
import type { EnvFactory, EnvStep, Opening, Reply, TextEnv } from "../src/envs/text-env.ts";
import { Random } from "../src/random/random.ts";

const NUM_KEYS = 24;
const words = Array.from({ length: 32 }, (_, i) => `w${i}`);
const keys = Array.from({ length: NUM_KEYS }, (_, i) => `k${i}`);
/** The code words, drawn once and for all. */
const codes = new Random(11).shuffled([...words]).slice(0, NUM_KEYS);

class CodeEnv implements TextEnv {
  readonly #question: string;
  readonly #answer: string;

  constructor(question: string, answer: string) {
    this.#question = question;
    this.#answer = answer;
  }

  start(): Opening {
    const messages = [{ role: "user", content: this.#question }];
    return { instructions: [], observation: { messages, stateKey: this.#question } };
  }

  step({ text }: Reply): EnvStep {
    const success = Number(text.trim() === this.#answer);
    return { kind: "terminated", reward: success, metrics: { success } };
  }

  randomReply = (random: Random) => random.pick(words);
  oracleReply = () => this.#answer;
}

/**
 * plain: the key alone. hinted: the key with its code word before it. lessons: keys with any word before or behind them, which is the
 * answer: what teaches a model to read hints, and nothing about codes.
 */
export type CodePrompts = "plain" | "hinted" | "lessons";

export function codeWords(prompts: CodePrompts): EnvFactory {
  const keyOf = (seed: number) => new Random(seed).integer(NUM_KEYS);
  return {
    words: { words: [...words, ...keys, "key", "hint", "answer"], endWords: words },
    makePrompt: (seed) => {
      const truth = codes[keyOf(seed)]!;
      return { id: `codes/${seed}`, domain: "codes", seed, messages: [], truth, extra: {} };
    },
    makeEnv: ({ seed }) => {
      const question = `key ${keys[keyOf(seed)]}`;
      const code = codes[keyOf(seed)]!;
      if (prompts === "plain") return new CodeEnv(question, code);
      if (prompts === "hinted") return new CodeEnv(`hint ${code}\n\n${question}`, code);
      const random = new Random(seed + 1);
      const [right, wrong] = [random.pick(words), random.pick(words)];
      const isBefore = random.integer(2) === 0;
      return new CodeEnv(isBefore ? `hint ${right}\n\n${question}` : `${question} ${wrong} answer ${right}`, right);
    },
  };
}
