/**
 * Thinking apart from what is said: the text between the tags that a model's template knows.
 *
 * In: text as it comes. Out: the same text in pieces of thinking and of speech, each as soon as it is certain, without the tags. White
 * space next to a tag belongs to it.
 */
import { beginningLength } from "./tool-calls/tool-call-reader.ts";

/** The tags of a family. */
interface ThinkingTags {
  readonly isIn: (template: string) => boolean;
  readonly open: string;
  readonly close: string;
  /** Tags of the family that say nothing to a reader. */
  readonly silent: readonly string[];
}

const families: readonly ThinkingTags[] = [
  {
    isIn: (template) => template.includes("<|channel|>analysis<|message|>"),
    open: "<|channel|>analysis<|message|>",
    close: "<|end|>",
    silent: ["<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>", "<|return|>"],
  },
  { isIn: (template) => template.includes("[THINK]"), open: "[THINK]", close: "[/THINK]", silent: [] },
  { isIn: (template) => template.includes("</think>"), open: "<think>", close: "</think>", silent: [] },
];

/** The tags that a template knows; undefined where it knows none. */
export function thinkingTagsOf(template: string): ThinkingTags | undefined {
  return families.find(({ isIn }) => isIn(template));
}

/** A piece of a reply. */
interface ThoughtPiece {
  readonly kind: "text" | "reasoning";
  readonly text: string;
}

export class ThinkingReader {
  readonly #tags: ThinkingTags;
  readonly #all: readonly string[];
  #isThinking: boolean;
  #isAfterTag: boolean;
  #tail = "";

  /** @param isThinking whether the prompt has opened the thinking already */
  constructor(tags: ThinkingTags, isThinking = false) {
    this.#tags = tags;
    this.#all = [tags.open, tags.close, ...tags.silent];
    this.#isThinking = isThinking;
    this.#isAfterTag = isThinking;
  }

  push(text: string): readonly ThoughtPiece[] {
    const pieces: ThoughtPiece[] = [];
    let rest = this.#tail + text;
    this.#tail = "";
    while (rest !== "") {
      const next = this.#nextTag(rest);
      if (next === undefined) {
        const certain = rest.length - Math.max(0, ...this.#all.map((tag) => beginningLength(rest, tag)));
        // White space before a tag is the tag's, so it waits for what follows.
        const end = rest.slice(0, certain).trimEnd().length;
        this.#give(rest.slice(0, end), pieces);
        this.#tail = rest.slice(end);
        break;
      }
      this.#give(rest.slice(0, next.at).trimEnd(), pieces);
      if (next.tag === this.#tags.open) this.#isThinking = true;
      if (next.tag === this.#tags.close) this.#isThinking = false;
      this.#isAfterTag = true;
      rest = rest.slice(next.at + next.tag.length);
    }
    return pieces;
  }

  end(): readonly ThoughtPiece[] {
    const pieces: ThoughtPiece[] = [];
    this.#give(this.#tail, pieces);
    this.#tail = "";
    return pieces;
  }

  #nextTag(text: string): { readonly tag: string; readonly at: number } | undefined {
    const found = this.#all.map((tag) => ({ tag, at: text.indexOf(tag) })).filter(({ at }) => at !== -1);
    return found.sort((a, b) => a.at - b.at)[0];
  }

  #give(text: string, pieces: ThoughtPiece[]): void {
    const shown = this.#isAfterTag ? text.trimStart() : text;
    if (shown === "") return;
    this.#isAfterTag = false;
    pieces.push({ kind: this.#isThinking ? "reasoning" : "text", text: shown });
  }
}
