import type { ChatMessage } from "../../flow/chat-message.ts";
import type { JsonValue } from "../../flow/prompt.ts";

const roles: Readonly<Record<string, string>> = { Human: "user", Assistant: "assistant" };

/** Messages of a dialog that is written as `\n\nHuman: ...\n\nAssistant: ...`; null for anything else. */
export function parseDialog(text: JsonValue | undefined): readonly ChatMessage[] | null {
  if (typeof text !== "string") return null;
  const [before, ...parts] = `\n\n${text.trimStart()}`.split(/\n\n(Human|Assistant):/);
  if (before !== "" || parts.length === 0) return null;
  const turns: ChatMessage[] = [];
  for (let i = 0; i < parts.length; i += 2) {
    turns.push({ role: roles[parts[i]!]!, content: parts[i + 1]!.trim() });
  }
  return turns;
}
