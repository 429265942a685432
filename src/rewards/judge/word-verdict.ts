/** The verdict of a judge that answers with one word: how likely its answer begins with a right one. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { FirstToken } from "./chat-endpoint.ts";

export interface JudgeWords {
  /** Words that speak for the reply. */
  readonly answers: readonly string[];
  /** Words that speak against it. Where there are any, they and the right ones are all that the judge may answer. */
  readonly contrary: readonly string[];
}

/** A right word and a contrary one that a first token cannot tell apart. */
export function overlapOf({ answers, contrary }: JudgeWords): readonly [string, string] | undefined {
  const pairs = answers.flatMap((right) => contrary.map((wrong) => [right, wrong] as const));
  return pairs.find(([a, b]) => plain(a).startsWith(plain(b)) || plain(b).startsWith(plain(a)));
}

/** The words with the contrary ones left out that are right for this prompt. */
export function withoutRight({ answers, contrary }: JudgeWords): JudgeWords {
  const right = new Set(answers.map(plain));
  return { answers, contrary: contrary.filter((word) => !right.has(plain(word))) };
}

export function wordVerdict(words: JudgeWords, firstTokens: readonly FirstToken[]): number {
  const answers = [...new Set(words.answers.map(plain))];
  const contrary = [...new Set(words.contrary.map(plain))];
  const known = [...answers, ...contrary];
  let [right, wrong, listed] = [0, 0, 0];
  for (const { token, logprob } of firstTokens) {
    const mass = Math.exp(logprob);
    listed += mass;
    const word = wordOf(plain(token), known, contrary.length > 0 ? 1 : 2);
    if (word === undefined) continue;
    if (answers.includes(word)) right += mass;
    else wrong += mass;
  }
  if (listed === 0) throw withoutLogprobs();
  if (contrary.length > 0 && right + wrong < listed / 2) throw notInForm(words, firstTokens);
  return Math.min(right, 1);
}

/** The word that a token is, or the only one that it begins. Where any word may follow, one letter begins too many. */
function wordOf(start: string, words: readonly string[], minLength: number): string | undefined {
  if (words.includes(start)) return start;
  if (start.length < minLength) return undefined;
  const begun = words.filter((word) => word.startsWith(start));
  return begun.length === 1 ? begun[0] : undefined;
}

/** Without the spaces, marks of tokenizers, quotes and punctuation around it, in lower case. */
function plain(text: string): string {
  const bare = text.replace(/^[\s▁Ġ]+/u, "").trim();
  return (bare.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "") || bare).toLowerCase();
}

function withoutLogprobs(): RerollError {
  return new RerollError(
    "JUDGE_UNREADABLE",
    'The judge\'s server answered without "logprobs", which mode "word" reads. Use a server that gives them, or another mode.',
  );
}

function notInForm({ answers, contrary }: JudgeWords, firstTokens: readonly FirstToken[]): RerollError {
  const likeliest = [...firstTokens].sort((a, b) => b.logprob - a.logprob)[0]?.token;
  return new RerollError(
    "JUDGE_UNREADABLE",
    `The judge answers with none of the words ${JSON.stringify([...answers, ...contrary])}: its answer most likely begins with ${JSON.stringify(likeliest)}. Ask for these words in the question, show examples, or leave out contrary where any word may be the answer.`,
  );
}
