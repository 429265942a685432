/**
 * How a model marks its answer: a word between two tags, such as `<answer> Right </answer>`.
 *
 * In: the text of a reply. Out: what stands between the tags, or null where nothing can be read. Never throws on a reply.
 */
import { z } from "zod";

/** The two marks around an answer. */
export interface AnswerTags {
  readonly open: string;
  readonly close: string;
}

/** Options of every environment that reads tagged answers. */
export const answerTagOptions = z
  .strictObject({ open: z.string().min(1), close: z.string().min(1) })
  .default({ open: "<answer>", close: "</answer>" })
  .describe("What stands before and after an answer.");

/** The trimmed text of the last complete pair of tags; null where there is none. Thoughts before it do not matter. */
export function readAnswer(text: string, { open, close }: AnswerTags): string | null {
  const end = text.lastIndexOf(close);
  const start = end < open.length ? -1 : text.lastIndexOf(open, end - open.length);
  return start === -1 ? null : text.slice(start + open.length, end).trim();
}

/** Which of the words was answered, in any case; null where it was none of them. */
export function readChoice(text: string, tags: AnswerTags, words: readonly string[]): number | null {
  const answer = readAnswer(text, tags)?.toLowerCase();
  const index = words.findIndex((word) => word.toLowerCase() === answer);
  return index === -1 ? null : index;
}

/** The reply that `readAnswer` reads back. Spaces keep tags and word apart for tokenizers that know whole words. */
export function writeAnswer(answer: string, { open, close }: AnswerTags): string {
  return `${open} ${answer} ${close}`;
}
