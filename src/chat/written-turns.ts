/**
 * A conversation that somebody wrote, as the tokens that a model would have seen and written in it.
 *
 * In: messages, the assistant's among them. Out: token sequences in which each reply follows the very prompt that asks for it. A reply is
 * what the template adds for it, up to the token that ends it; what stands between two replies is encoded on its own, as in a rollout.
 * Where the template shows an earlier reply in another way than it was written (without its reasoning, say), the sequence ends and
 * another one begins.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { ChatMessage, ChatTool } from "../flow/chat-message.ts";
import { joinIds } from "../flow/join-arrays.ts";
import type { ChatFormat } from "./conversation.ts";
import { renderChat } from "./template/chat-template.ts";
import type { Tokenizer } from "./tokenizer/tokenizer.ts";

/** A token sequence, and where the replies in it are. */
interface WrittenTurns {
  readonly tokenIds: Int32Array;
  readonly replies: readonly WrittenReply[];
}

interface WrittenReply {
  /** The index of its message in the conversation. */
  readonly message: number;
  /** Its tokens, from the first to one behind the last, which is the one that ended it. */
  readonly start: number;
  readonly end: number;
}

/** The sequences of a conversation up to its last reply. Rejects where the chat template does not take the messages. */
export async function writeTurns(
  format: ChatFormat,
  messages: readonly ChatMessage[],
  tools?: readonly ChatTool[],
): Promise<readonly WrittenTurns[]> {
  const options = { ...(tools && { tools }), ...format.chat };
  const sequences: Draft[] = [];
  for (const [message, { role }] of messages.entries()) {
    if (role !== "assistant") continue;
    const prompt = renderChat(format.tokenizer, messages.slice(0, message), { ...options, addGenerationPrompt: true });
    const whole = renderChat(format.tokenizer, messages.slice(0, message + 1), options);
    const reply = replyOf(format.tokenizer, prompt, whole, messages[message]!);
    const before = sequences.at(-1);
    const isExtended = before?.text != null && prompt.startsWith(before.text);
    const draft = isExtended ? before : { text: "", pieces: [], replies: [], length: 0 };
    if (!isExtended) sequences.push(draft);
    add(draft, await format.encoder.encode(prompt.slice(draft.text?.length ?? 0)));
    const replyIds = joinIds([await format.encoder.encode(reply.text), reply.endIds]);
    draft.replies.push({ message, start: draft.length, end: draft.length + replyIds.length });
    add(draft, replyIds);
    draft.text = reply.endIds.length === 0 ? prompt + reply.text : null;
  }
  return sequences.map(({ pieces, replies }) => ({ tokenIds: joinIds(pieces), replies }));
}

/** A sequence that may go on. `text` is what its tokens spell; null where nothing can follow, because the template wrote no end. */
interface Draft {
  text: string | null;
  readonly pieces: Int32Array[];
  readonly replies: WrittenReply[];
  length: number;
}

function add(draft: Draft, ids: Int32Array): void {
  draft.pieces.push(ids);
  draft.length += ids.length;
}

/** What the model has to write: the text with the special token that ends it, or else the text and a token to put behind it. */
interface ReplyText {
  readonly text: string;
  readonly endIds: readonly number[];
}

function replyOf(tokenizer: Tokenizer, prompt: string, whole: string, { content }: ChatMessage): ReplyText {
  const endIds = tokenizer.stopIds.filter((id) => tokenizer.specialIds.has(id)).slice(0, 1);
  if (whole.startsWith(prompt)) {
    const rest = whole.slice(prompt.length);
    const end = lastSpecialEnd(tokenizer, rest);
    return end === null ? { text: rest, endIds } : { text: rest.slice(0, end), endIds: [] };
  }
  // The template opens a reply in another way than it shows one, such as with a mark for reasoning.
  if (typeof content === "string") return { text: content, endIds };
  throw new RerollError(
    "CHAT_REFUSED",
    `The chat template of ${tokenizer.name} does not show a reply after the words that ask for one, and the reply is no plain text: ` +
      "what the model would have to write is not known.",
  );
}

function lastSpecialEnd(tokenizer: Tokenizer, text: string): number | null {
  const ends = [...tokenizer.specialIds].flatMap((id) => {
    const token = tokenizer.tokenOf(id) ?? "";
    const at = token === "" ? -1 : text.lastIndexOf(token);
    return at === -1 ? [] : [at + token.length];
  });
  return ends.length === 0 ? null : Math.max(...ends);
}
