/** The output items of an answer: its thoughts, texts and calls, in the order the model wrote them. */
import type { ReplyPart } from "../../../chat/tool-calls/reply-part.ts";

export type OutputItem = MessageItem | ReasoningItem | FunctionCallItem;

type ItemStatus = "in_progress" | "completed" | "incomplete";

interface MessageItem {
  readonly id: string;
  readonly type: "message";
  readonly status: ItemStatus;
  readonly role: "assistant";
  readonly content: readonly TextPart[];
}

interface TextPart {
  readonly type: "output_text";
  readonly text: string;
  readonly annotations: readonly [];
  readonly logprobs: readonly object[];
}

/** Thinking, whole: clients show summaries and pass over the rest. */
interface ReasoningItem {
  readonly id: string;
  readonly type: "reasoning";
  readonly status: ItemStatus;
  readonly summary: readonly SummaryPart[];
}

interface SummaryPart {
  readonly type: "summary_text";
  readonly text: string;
}

interface FunctionCallItem {
  readonly id: string;
  readonly type: "function_call";
  readonly status: ItemStatus;
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
}

export function outputText(text: string, logprobs: readonly object[] = []): TextPart {
  return { type: "output_text", text, annotations: [], logprobs };
}

export function summaryText(text: string): SummaryPart {
  return { type: "summary_text", text };
}

/** @param responseKey the answer's id without its prefix: items are named after it */
export function itemOf(part: ReplyPart, index: number, responseKey: string, status: ItemStatus): OutputItem {
  if (part.kind === "reasoning") {
    return { id: `rs_${responseKey}-${index}`, type: "reasoning", status, summary: [summaryText(part.text)] };
  }
  if (part.kind === "text") {
    const content = [outputText(part.text)];
    return { id: `msg_${responseKey}-${index}`, type: "message", status, role: "assistant", content };
  }
  const { name, arguments: given } = part.call.function;
  const id = `fc_${responseKey}-${index}`;
  return { id, type: "function_call", status, call_id: part.call.id, name, arguments: given };
}
