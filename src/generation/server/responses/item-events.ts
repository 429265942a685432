/**
 * The events that tell the items of a streamed answer, in OpenAI's order: an item is added, its parts come, it is done.
 *
 * Text comes as it is written; a call comes when it is complete, in one delta.
 */
import type { ReplyPart } from "../../../chat/tool-calls/reply-part.ts";
import { itemOf, type MessageItem, type OutputItem, outputText } from "./output-items.ts";

export class ItemEvents {
  readonly #responseKey: string;
  readonly #items: OutputItem[] = [];
  /** The message that text still comes for. */
  #open: { readonly item: MessageItem; readonly logprobs: object[]; text: string } | null = null;

  constructor(responseKey: string) {
    this.#responseKey = responseKey;
  }

  /** Items that are done. */
  get items(): readonly OutputItem[] {
    return this.#items;
  }

  push(parts: readonly ReplyPart[], logprobs: readonly object[]): object[] {
    const events: object[] = [];
    for (const [index, part] of parts.entries()) {
      if (part.kind !== "tool-call") events.push(...this.#text(part.text, index === 0 ? logprobs : []));
      else events.push(...this.#closeText("completed"), ...this.#call(part));
    }
    return events;
  }

  /** A reply without any text or call is an empty message. */
  end(status: "completed" | "incomplete"): object[] {
    const opening = this.#items.length === 0 && this.#open === null ? this.#text("", []) : [];
    return [...opening, ...this.#closeText(status)];
  }

  #text(delta: string, logprobs: readonly object[]): object[] {
    const events: object[] = [];
    if (this.#open === null) {
      const empty = itemOf({ kind: "text", text: "" }, this.#items.length, this.#responseKey, "in_progress");
      if (empty.type !== "message") return [];
      this.#open = { item: { ...empty, content: [] }, logprobs: [], text: "" };
      events.push(
        { type: "response.output_item.added", output_index: this.#items.length, item: this.#open.item },
        { type: "response.content_part.added", ...this.#place(), part: outputText("") },
      );
    }
    this.#open.text += delta;
    this.#open.logprobs.push(...logprobs);
    if (delta !== "") events.push({ type: "response.output_text.delta", ...this.#place(), delta, logprobs });
    return events;
  }

  #closeText(status: "completed" | "incomplete"): object[] {
    if (this.#open === null) return [];
    const { item: begun, text, logprobs } = this.#open;
    const place = this.#place();
    const part = outputText(text, logprobs);
    const item: MessageItem = { ...begun, status, content: [part] };
    this.#open = null;
    this.#items.push(item);
    return [
      { type: "response.output_text.done", ...place, text, logprobs },
      { type: "response.content_part.done", ...place, part },
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

  #place() {
    return { item_id: this.#open?.item.id, output_index: this.#items.length, content_index: 0 };
  }
}
