/**
 * From a conversation to prompt tokens, in which earlier replies keep their own tokens.
 *
 * The conversation is rendered twice: with a mark in place of every recorded reply, and with each as the model wrote it. The
 * marks show where replies stand; the second rendering shows whether the template left them as they are. A reply that
 * the template changes (it strips thinking, or trims) is rendered as the client sent it, and counted. The token that ended
 * a reply takes the place of the one that the template writes there: of several end tokens, the one that was sampled stays.
 */
import { invariant, RerollError } from "../errors/reroll-error.ts";
import type { ChatMessage } from "../flow/chat-message.ts";
import { joinIds } from "../flow/join-arrays.ts";
import type { PromptEncoder } from "./prompt-encoder.ts";
import { PromptHash, type RecordedReply } from "./reply-index.ts";
import { type ChatOptions, renderChat } from "./template/chat-template.ts";
import type { Tokenizer } from "./tokenizer/tokenizer.ts";

interface ChatPromptParts {
  readonly tokenizer: Tokenizer;
  readonly encoder: PromptEncoder;
  readonly replies: ReplyLookup;
  /** Stands for a reply while rendering. Must not occur in any message. */
  readonly mark: string;
}

/** Finds the replies that an assistant message may be, the likeliest first. */
interface ReplyLookup {
  find(sessionId: string | undefined, message: ChatMessage): readonly RecordedReply[];
}

interface ChatPrompt {
  readonly promptIds: Int32Array;
  /** Earlier replies whose own tokens are in the prompt. */
  readonly numSpliced: number;
  /** Earlier replies that were known, but that the template did not render as written. */
  readonly numChanged: number;
}

/** @param maxTokens a longer prompt is cut off somewhere behind this, as it will be refused anyway */
export async function buildChatPrompt(
  parts: ChatPromptParts,
  messages: readonly ChatMessage[],
  options: ChatOptions,
  { sessionId, maxTokens }: { sessionId: string | undefined; maxTokens: number },
): Promise<ChatPrompt> {
  const { tokenizer, encoder, mark } = parts;
  const known = knownReplies(parts.replies, messages, sessionId);
  let kept = known;
  // Every round drops at least one reply, so this ends; two rounds are the rule where a template changes any.
  while (kept.length > 0) {
    const marked = withContents(
      messages,
      kept.map(({ messageIndex }) => ({ messageIndex, text: mark })),
    );
    const pieces = renderIfTaken(tokenizer, marked, options)?.split(mark);
    if (pieces?.length !== kept.length + 1) break;
    const { promptIds, chosen } = await joinTokens(parts, pieces, kept, maxTokens);
    const numChanged = known.length - kept.length;
    if (chosen.length < kept.length) return { promptIds, numSpliced: chosen.length, numChanged };
    const text = renderIfTaken(tokenizer, withContents(messages, chosen), options);
    if (text === undefined) break;
    const isUnchanged = findUnchanged(text, pieces, chosen);
    const unchanged = kept.filter((_, index) => isUnchanged[index]);
    if (unchanged.length === kept.length) return { promptIds, numSpliced: kept.length, numChanged };
    kept = unchanged;
  }
  const promptIds = await encoder.encode(renderChat(tokenizer, messages, options), maxTokens);
  return { promptIds, numSpliced: 0, numChanged: known.length };
}

/** A message that is a recorded reply; `candidates` look the same to the client, the likeliest first. */
interface KnownReply {
  readonly messageIndex: number;
  readonly candidates: readonly RecordedReply[];
}

/** The reply that a message is. */
interface ChosenReply extends RecordedReply {
  readonly messageIndex: number;
}

function knownReplies(
  replies: ReplyLookup,
  messages: readonly ChatMessage[],
  sessionId: string | undefined,
): readonly KnownReply[] {
  return messages.flatMap((message, messageIndex) => {
    const candidates = message.role === "assistant" ? replies.find(sessionId, message) : [];
    return candidates.length === 0 ? [] : [{ messageIndex, candidates }];
  });
}

/** Undefined where the template does not take replies without their tool calls. Then they are rendered as sent. */
function renderIfTaken(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  options: ChatOptions,
): string | undefined {
  try {
    return renderChat(tokenizer, messages, options);
  } catch (cause) {
    if (cause instanceof RerollError) return undefined;
    throw cause;
  }
}

function withContents(
  messages: readonly ChatMessage[],
  replies: readonly { readonly messageIndex: number; readonly text: string }[],
): readonly ChatMessage[] {
  const changed = [...messages];
  for (const { messageIndex, text } of replies) changed[messageIndex] = { role: "assistant", content: text };
  return changed;
}

/** Walks through the text piece by piece. Behind a reply that is not there as written, it goes on at the next piece. */
function findUnchanged(
  text: string,
  pieces: readonly string[],
  replies: readonly { readonly text: string }[],
): readonly boolean[] {
  const [first] = pieces;
  invariant(first !== undefined, "a rendering has at least one piece");
  let at = text.startsWith(first) ? first.length : -1;
  return replies.map((reply, index) => {
    if (at === -1) return false;
    const after = pieces[index + 1] ?? "";
    const isThere = text.startsWith(reply.text, at) && text.startsWith(after, at + reply.text.length);
    const start = isThere ? at + reply.text.length : text.indexOf(after, at);
    at = start === -1 ? -1 : start + after.length;
    return isThere;
  });
}

/** The prompt with the replies in their places. Fewer are chosen than there are where it is too long. */
async function joinTokens(
  { tokenizer, encoder }: ChatPromptParts,
  pieces: readonly string[],
  replies: readonly KnownReply[],
  maxTokens: number,
): Promise<{ readonly promptIds: Int32Array; readonly chosen: readonly ChosenReply[] }> {
  const ends = tokenizer.stopIds.map((id) => tokenizer.tokenOf(id) ?? "");
  const parts: Int32Array[] = [];
  const chosen: ChosenReply[] = [];
  const hash = new PromptHash();
  const add = (ids: Int32Array) => {
    parts.push(ids);
    hash.add(ids);
  };
  for (const [index, piece] of pieces.entries()) {
    const before = chosen.at(-1);
    const rest = piece.slice(before === undefined ? 0 : writtenEnd(piece, before, ends).length);
    add(await encoder.encode(rest, maxTokens - hash.key.length));
    if (hash.key.length > maxTokens) break;
    const reply = replies[index];
    if (reply === undefined) continue;
    chosen.push({ ...choose(reply, hash), messageIndex: reply.messageIndex });
    add(chosen.at(-1)!.tokenIds);
  }
  return { promptIds: joinIds(parts), chosen };
}

/** What the template has written for the end of a reply that brings an end of its own. */
function writtenEnd(piece: string, { endText }: RecordedReply, ends: readonly string[]): string {
  if (endText === "") return "";
  return [endText, ...ends].find((end) => end !== "" && piece.startsWith(end)) ?? "";
}

/** Picks, among replies that look the same, the one that answered exactly these tokens. */
function choose({ candidates }: KnownReply, prompt: PromptHash): RecordedReply {
  const { length, hash } = prompt.key;
  const exact = candidates.find(({ promptKey }) => promptKey.length === length && promptKey.hash === hash);
  const chosen = exact ?? candidates[0];
  invariant(chosen !== undefined, "a known reply has a candidate");
  return chosen;
}
