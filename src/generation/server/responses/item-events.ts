/**
 * The events that tell the items of a streamed answer, in OpenAI's order: an item is added, its parts come, it is done.
 *
 * Text and thinking come as they are written; a call comes when it is complete, in one delta.
 */
import type { ReplyPart } from "../../../chat/tool-calls/reply-part.ts";
import { itemOf, type OutputItem, outputText, summaryText } from "./output-items.ts";

type WrittenKind = "text" | "reasoning";

export class ItemEvents {
  readonly #responseKey: string;
  readonly #items: OutputItem[] = [];
  /** The message, or the thought, that text still comes for. */
  #open: { readonly kind: WrittenKind; readonly id: string; readonly logprobs: object[]; text: string } | null = null;

  constructor(responseKey: string) {
    this.#responseKey = responseKey;
  }

  /** Items that are done. */
  get items(): readonly OutputItem[] {
    return this.#items;
  }

  push(parts: readonly ReplyPart[], logprobs: readonly object[]): object[] {
    const events: object[] = [];
    const first = parts.find((part) => part.kind === "text");
    for (const part of parts) {
      if (part.kind === "tool-call") events.push(...this.#close("completed"), ...this.#call(part));
      else events.push(...this.#write(part.kind, part.text, part === first ? logprobs : []));
    }
    return events;
  }

  /** A reply without any text or call is an empty message. */
  end(status: "completed" | "incomplete"): object[] {
    const opening = this.#items.length === 0 && this.#open === null ? this.#write("text", "", []) : [];
    return [...opening, ...this.#close(status)];
  }

  #write(kind: WrittenKind, delta: string, logprobs: readonly object[]): object[] {
    const events = this.#open !== null && this.#open.kind !== kind ? this.#close("completed") : [];
    if (this.#open === null) {
      const item = itemOf({ kind, text: "" }, this.#items.length, this.#responseKey, "in_progress");
      this.#open = { kind, id: item.id, logprobs: [], text: "" };
      const bare = item.type === "reasoning" ? { ...item, summary: [] } : { ...item, content: [] };
      events.push(
        { type: "response.output_item.added", output_index: this.#items.length, item: bare },
        { type: `${PARTS[kind]}.added`, ...this.#place(kind), part: partOf(kind, "", []) },
      );
    }
    this.#open.text += delta;
    this.#open.logprobs.push(...logprobs);
    if (delta !== "") {
      events.push({ type: `${TEXTS[kind]}.delta`, ...this.#place(kind), delta, ...(kind === "text" && { logprobs }) });
    }
    return events;
  }

  #close(status: "completed" | "incomplete"): object[] {
    if (this.#open === null) return [];
    const { kind, text, logprobs } = this.#open;
    const place = this.#place(kind);
    const part = partOf(kind, text, logprobs);
    const written = itemOf({ kind, text }, this.#items.length, this.#responseKey, status);
    const item = written.type === "message" ? { ...written, content: [outputText(text, logprobs)] } : written;
    this.#open = null;
    this.#items.push(item);
    return [
      { type: `${TEXTS[kind]}.done`, ...place, text, ...(kind === "text" && { logprobs }) },
      { type: `${PARTS[kind]}.done`, ...place, part },
      { type: "response.output_item.done", output_index: place.output_index, item },
    ];
  }

  #call(part: ReplyPart): object[] {
    const output_index = this.#items.length;
    const item = itemOf(part, output_index, this.#responseKey, "completed");
    if (item.type !== "function_call") return [];
    this.#items.push(item);
    const { id: item_id, name, arguments: given } = item;
    return [
      { type: "response.output_item.added", output_index, item: { ...item, arguments: "", status: "in_progress" } },
      { type: "response.function_call_arguments.delta", item_id, output_index, delta: given },
      { type: "response.function_call_arguments.done", item_id, output_index, name, arguments: given },
      { type: "response.output_item.done", output_index, item },
    ];
  }

  #place(kind: WrittenKind) {
    const index = kind === "text" ? { content_index: 0 } : { summary_index: 0 };
    return { item_id: this.#open?.id, output_index: this.#items.length, ...index };
  }
}

const PARTS = { text: "response.content_part", reasoning: "response.reasoning_summary_part" } as const;
const TEXTS = { text: "response.output_text", reasoning: "response.reasoning_summary_text" } as const;

function partOf(kind: WrittenKind, text: string, logprobs: readonly object[]): object {
  return kind === "text" ? outputText(text, logprobs) : summaryText(text);
}
