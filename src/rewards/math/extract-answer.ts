/**
 * Finds the answer that a reply commits to.
 *
 * The methods are tried in the order given, and the first that finds something decides: a reply gets one guess. What stands
 * before the last `</think>` is not looked at, and a reply that never ends its thinking has no answer.
 */
import { finalAnswer } from "../final-answer.ts";

/** Where an answer was found. */
export type ExtractionMethod = (typeof EXTRACTION_METHODS)[number];

/**
 * boxed: the last `\boxed{...}` or `\fbox{...}`; hash: the rest of the line after the last `####`; tag: the last `<answer>`
 * element; phrase: after the last "the answer is" or "answer:"; line: the last line, where it is nothing but an answer or
 * ends in one after an equals sign; number: the last number of the text.
 */
export const EXTRACTION_METHODS = ["boxed", "hash", "tag", "phrase", "line", "number"] as const;

interface ExtractedAnswer {
  readonly text: string;
  readonly method: ExtractionMethod;
}

export function extractAnswer(
  reply: string,
  methods: readonly ExtractionMethod[] = EXTRACTION_METHODS,
): ExtractedAnswer | null {
  const visible = finalAnswer(reply);
  for (const method of methods) {
    const text = EXTRACTORS[method](visible)?.trim();
    if (text !== undefined && text !== "") return { text, method };
  }
  return null;
}

const EXTRACTORS: Readonly<Record<ExtractionMethod, (reply: string) => string | undefined>> = {
  boxed: lastBoxed,
  hash: (reply) => lastMatch(reply, /####[ \t]*([^\n]+)/g),
  tag: (reply) => inside(lastTagged(reply)),
  phrase: lastPhrase,
  line: lastLine,
  number: (reply) => lastMatch(reply, NUMBER),
};

/** A number as prose has it: signed, with separators, a fraction or a percentage. A minus between two numbers is no sign. */
const NUMBER =
  /((?:(?<![\w)}\]])[-−])?(?:\\?\$)?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:\/\d+)?(?:\\?%)?|\\[dt]?frac\{-?\d+\}\{\d+\})/g;

/** For text whose white space is one character at a time: a longer run would be divided in all ways among the `\s*`. */
const PHRASE =
  /(?:final answer|answer)(?:\s+to\s[^.:\n]{0,80})?\s*(?:\*\*)?\s*(?:is|are|=|:)(?:\s*(?:\*\*|:))*\s*([^\n]+)/gi;

function lastMatch(text: string, pattern: RegExp): string | undefined {
  let last: string | undefined;
  for (const match of text.matchAll(pattern)) last = match[1];
  return last;
}

/** What stands in the last `<answer>` element; where one is opened inside another, in the inner one. */
function lastTagged(reply: string): string | undefined {
  let content: string | undefined;
  let start: number | undefined;
  for (const { 0: tag, index } of reply.matchAll(/<\/?answer>/gi)) {
    if (!tag.startsWith("</")) start = index + tag.length;
    else if (start !== undefined) {
      content = reply.slice(start, index);
      start = undefined;
    }
  }
  return content;
}

/** Boxes without an end are skipped, but not without end. */
const MAX_BOXES = 16;

/** The content of the last box with balanced braces; `\boxed 5` has no braces and one token. */
function lastBoxed(reply: string): string | undefined {
  for (let start = reply.length, tries = 0; start > 0 && tries < MAX_BOXES; tries++) {
    start = Math.max(reply.lastIndexOf("\\boxed", start - 1), reply.lastIndexOf("\\fbox", start - 1));
    if (start === -1) return undefined;
    const [command = "", bare] = /^\\(?:boxed|fbox)(?:\s+([\w.]+))?\s*/.exec(reply.slice(start, start + 60)) ?? [];
    if (command === "") continue;
    const content = bare ?? balanced(reply, start + command.length);
    if (content !== undefined) return content;
  }
  return undefined;
}

function balanced(text: string, start: number): string | undefined {
  if (text[start] !== "{") return undefined;
  let depth = 0;
  for (let end = start; end < text.length; end++) {
    if (text[end] === "\\") end++;
    else if (text[end] === "{") depth++;
    else if (text[end] === "}" && --depth === 0) return text.slice(start + 1, end);
  }
  return undefined;
}

/** Tags may hold a box, or a whole sentence. */
function inside(content: string | undefined): string | undefined {
  return content === undefined ? undefined : (lastBoxed(content) ?? lastPhrase(content) ?? content);
}

function lastPhrase(reply: string): string | undefined {
  const rest = lastMatch(singleSpaced(reply), PHRASE);
  return rest === undefined ? undefined : firstSentence(rest);
}

/** Every run of white space as one line break where it has one, else as one space. */
function singleSpaced(text: string): string {
  return text.replace(/\s+/g, (run) => (run.includes("\n") ? "\n" : " "));
}

/** Mathematics between delimiters where it comes first, else the text up to the end of the sentence. */
function firstSentence(text: string): string {
  const math = /^\s*(?:\$\$?([^$]+)\$|\\\(([\s\S]+?)\\\)|\\\[([\s\S]+?)\\\])/.exec(text);
  const delimited = math?.slice(1).find((part) => part !== undefined);
  const rest = math === null ? "" : text.slice(math[0].length).replace(/^\$/, "").trimStart();
  // A list such as `$1$ and $2$` goes on after the first delimiter.
  if (delimited !== undefined && !/^(?:,?\s*(?:and|or)|,)\s*[$\\\d-]/.test(rest)) return delimited;
  return text.split(/(?<=[^\s\d]|\d)\.(?:\s|$)/)[0]!.replace(/\*\*|`/g, "");
}

function lastLine(reply: string): string | undefined {
  const line =
    reply
      .trimEnd()
      .split("\n")
      .at(-1)
      ?.trim()
      .replace(/\*\*|`/g, "") ?? "";
  const text = firstSentence(line).trim();
  if (text.length > 100) return undefined;
  const words = text.replace(/\\[A-Za-z]+(?:\{[^{}]*\})?/g, "").match(/[A-Za-z]{2,}/g) ?? [];
  const isWord = words.length === 1 && /^[A-Za-z]+$/.test(text);
  if (words.length === 0 || isWord) return /=[^=]*=/.test(text) ? text.split("=").at(-1) : text;
  return undefined;
}
