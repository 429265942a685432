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
  .strictObject({
    open: z.string().min(1).describe("Text before an answer."),
    close: z.string().min(1).describe("Text after an answer."),
  })
  .default({ open: "<answer>", close: "</answer>" })
  .describe("Tags around an answer.");

/** The same where tags may be left out: the whole reply is then the answer, which suits models that know whole words. */
export const optionalTagOptions = answerTagOptions
  .unwrap()
  .nullable()
  .default({ open: "<answer>", close: "</answer>" })
  .describe("Tags around an answer. null: no tags, so that the whole reply is the answer.");

/** The trimmed text of the last complete pair of tags; null where there is none. Thoughts before it do not matter. */
export function readAnswer(text: string, tags: AnswerTags | null): string | null {
  if (tags === null) return text.trim();
  const { open, close } = tags;
  const end = text.lastIndexOf(close);
  const start = end < open.length ? -1 : text.lastIndexOf(open, end - open.length);
  return start === -1 ? null : text.slice(start + open.length, end).trim();
}

/** The word that was answered, in upper or lower case; null when it is none of them. */
export function readChoice(text: string, tags: AnswerTags | null, words: readonly string[]): number | null {
  const answer = readAnswer(text, tags)?.toLowerCase();
  const index = words.findIndex((word) => word.toLowerCase() === answer);
  return index === -1 ? null : index;
}

/** The reply that `readAnswer` reads back. Spaces keep tags and word apart for tokenizers that know whole words. */
export function writeAnswer(answer: string, tags: AnswerTags | null): string {
  return tags === null ? answer : `${tags.open} ${answer} ${tags.close}`;
}

/** Tells how to answer, such as "between tags, for example: <answer> Right </answer>". */
export function describeAnswer(example: string, tags: AnswerTags | null): string {
  return tags === null ? `alone, for example: ${example}` : `between tags, for example: ${writeAnswer(example, tags)}`;
}

/** The message to a model whose reply could not be read. */
export function unreadNotice(tags: AnswerTags | null): string {
  const where = tags === null ? "" : ` between ${tags.open} and ${tags.close}`;
  return `Your last reply had no action${where}: nothing moved.\n`;
}

/** The words that mark and end an answer, for tokenizers of whole words: the tags, or the actions themselves. */
export function answerWords(
  actions: readonly string[],
  tags: AnswerTags | null,
): { readonly words: readonly string[]; readonly endWords: readonly string[] } {
  if (tags === null) return { words: actions, endWords: actions };
  return { words: [...actions, tags.open, tags.close], endWords: [tags.close] };
}
