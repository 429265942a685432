/**
 * A task that a rule can check and a small chat model can learn: a story that uses three given words.
 *
 * Validation asks for words that training never does, so what is learned is to use the words asked for, not these words.
 */
import { Random } from "../../src/random/random.ts";

const trainingWords =
  "river music garden bread teacher mountain ocean horse school winter window bridge letter market forest doctor apple summer " +
  "mirror kitchen island train candle paper village silver dragon pocket basket engine camera flower hammer castle rabbit " +
  "blanket soldier orange planet button lion guitar morning coffee";
const validationWords =
  "piano desert queen ladder pencil tiger cloud butter rocket farmer stone uncle lemon needle harbor";

/** A row of data: what is asked, and the words that the reply must hold. */
export interface WordRow extends Record<string, string | string[]> {
  readonly question: string;
  readonly truth: string[];
}

/** As many rows as asked for, the same for the same seed. */
export function wordRows(part: "training" | "validation", count: number, seed: number): WordRow[] {
  const words = (part === "training" ? trainingWords : validationWords).split(" ");
  const random = new Random(seed);
  return Array.from({ length: count }, () => {
    const truth = random.shuffled(words).slice(0, 3);
    return { question: `Write a short story with the words ${truth.join(", ")}.`, truth };
  });
}
