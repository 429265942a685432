/** What a client sees of a reply: text, and tool calls in OpenAI's form, whatever form the model writes them in. */

export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string /** JSON. */; readonly arguments: string };
}

export type ReplyPart =
  | { readonly kind: "text"; readonly text: string }
  /** What a model thinks before it speaks, where that is kept apart. */
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "tool-call"; readonly index: number; readonly call: ToolCall };

/** Adds a part. Texts that follow each other become one. */
export function addPart(parts: ReplyPart[], part: ReplyPart): void {
  const last = parts.at(-1);
  if (part.kind !== "tool-call" && last?.kind === part.kind)
    parts[parts.length - 1] = { kind: part.kind, text: last.text + part.text };
  else parts.push(part);
}
