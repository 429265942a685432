/** Rewards for replies that keep a form. */

interface FormatOptions {
  /** Added when the reply has the form. Default 0. */
  readonly match?: number;
  /** Added when it does not; usually negative. Default -1. */
  readonly miss?: number;
}

/** `match` when the pattern is found in the text, `miss` otherwise. Anchor the pattern to ask for the whole text. */
export function formatReward(text: string, pattern: RegExp, { match = 0, miss = -1 }: FormatOptions = {}): number {
  // A pattern with the g or y flag remembers where it stopped; search does not.
  return text.search(pattern) === -1 ? miss : match;
}

/** Thoughts first, once, then an answer: `<think> ... </think> ...`. */
export const THINK_FORMAT = /^\s*<think>(?:(?!<\/?think>)[\s\S])*<\/think>(?![\s\S]*<\/?think>)/;

/** Thoughts, then an answer in tags: `<think> ... </think> <answer> ... </answer>`. */
export const THINK_ANSWER_FORMAT =
  /^\s*<think>(?:(?!<\/?think>)[\s\S])*<\/think>\s*<answer>(?:(?!<\/?answer>)[\s\S])*<\/answer>\s*$/;
