/**
 * An environment from scratch: guess a number between 1 and 100, and be told whether it is higher or lower.
 *
 * The number comes from the prompt's seed, so all trajectories of a group guess the same one. Check it with
 * `await checkEnv(guessNumber())`; with the oracle, which halves the range each time, seven guesses are enough.
 */
import {
  type EnvFactory,
  type EnvStep,
  type Observation,
  type Opening,
  Random,
  type Reply,
  RerollError,
  type TextEnv,
} from "reroll";

class GuessNumberEnv implements TextEnv {
  readonly #number: number;
  #low = 1;
  #high = 100;
  #guessesLeft: number;

  constructor(number: number, maxGuesses: number) {
    this.#number = number;
    this.#guessesLeft = maxGuesses;
  }

  start(): Opening {
    const rules = "Guess a whole number. Write it between tags: <answer>50</answer>";
    return { instructions: [{ role: "system", content: rules }], observation: this.#observe() };
  }

  step({ text }: Reply): EnvStep {
    if (this.#guessesLeft === 0) throw new RerollError("EPISODE_ENDED", "No guesses are left.");
    const guess = Number(/<answer>\s*(\d{1,3})\s*<\/answer>/.exec(text)?.[1] ?? Number.NaN);
    const isRight = guess === this.#number;
    if (guess < this.#number) this.#low = Math.max(this.#low, guess + 1);
    if (guess > this.#number) this.#high = Math.min(this.#high, guess - 1);
    this.#guessesLeft = isRight ? 0 : this.#guessesLeft - 1;
    const hasEnded = this.#guessesLeft === 0;
    return {
      kind: isRight ? "terminated" : hasEnded ? "truncated" : "continues",
      reward: Number(isRight),
      metrics: { valid_action: Number(!Number.isNaN(guess)), ...(hasEnded ? { success: Number(isRight) } : {}) },
      observation: this.#observe(),
    };
  }

  randomReply = (random: Random) => `<answer>${1 + random.integer(100)}</answer>`;
  oracleReply = () => `<answer>${Math.floor((this.#low + this.#high) / 2)}</answer>`;
  render = () => `${this.#low} <= ? <= ${this.#high}`;

  #observe(): Observation {
    const content = `The number is between ${this.#low} and ${this.#high}.`;
    return { messages: [{ role: "user", content }], stateKey: `${this.#number} in ${this.#low}-${this.#high}` };
  }
}

/** Episodes by seed. Seven guesses are just enough for those who halve the range. */
export function guessNumber({ maxGuesses = 7 }: { readonly maxGuesses?: number } = {}): EnvFactory {
  return {
    makePrompt: (seed) => ({
      id: `guess-number/${seed}`,
      domain: "guess-number",
      seed,
      messages: [],
      truth: null,
      extra: {},
    }),
    makeEnv: (prompt) => new GuessNumberEnv(1 + new Random(prompt.seed).integer(100), maxGuesses),
  };
}
