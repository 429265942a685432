/**
 * From a conversation to prompt tokens, in which earlier replies keep their own tokens.
 *
 * The conversation is rendered twice: with every recorded reply as the model wrote it, and with a mark in its place. The
 * marks show where replies stand; the first rendering shows whether the template left them as they are. A reply that
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
  const known = knownReplies(parts.replies, messages, sessionId);
  const { pieces, kept } = renderAroundReplies(parts, messages, options, known);
  const promptIds = await joinTokens(parts, pieces, kept, maxTokens);
  return { promptIds, numSpliced: kept.length, numChanged: known.length - kept.length };
}

/** A message that is a recorded reply; `candidates` look the same to the client, the likeliest first. */
interface KnownReply {
  readonly messageIndex: number;
  readonly candidates: readonly RecordedReply[];
  readonly text: string;
}

function knownReplies(
  replies: ReplyLookup,
  messages: readonly ChatMessage[],
  sessionId: string | undefined,
): readonly KnownReply[] {
  return messages.flatMap((message, messageIndex) => {
    const found = message.role === "assistant" ? replies.find(sessionId, message) : [];
    const [first] = found;
    if (first === undefined) return [];
    const { text } = first;
    return [{ messageIndex, candidates: found.filter((reply) => reply.text === text), text }];
  });
}

interface Rendering {
  /** The text before, between and after the replies that are kept: one more than there are replies. */
  readonly pieces: readonly string[];
  readonly kept: readonly KnownReply[];
}

/** Every round drops at least one reply, so this ends; two rounds are the rule where a template changes any. */
function renderAroundReplies(
  { tokenizer, mark }: ChatPromptParts,
  messages: readonly ChatMessage[],
  options: ChatOptions,
  known: readonly KnownReply[],
): Rendering {
  const render = (contentOf: (reply: KnownReply) => string, replies: readonly KnownReply[]) =>
    renderIfTaken(tokenizer, withContents(messages, replies, contentOf), options);
  let kept = known;
  while (kept.length > 0) {
    const pieces = render(() => mark, kept)?.split(mark);
    const text = render((reply) => reply.text, kept);
    if (text === undefined || pieces?.length !== kept.length + 1) break;
    const unchanged = kept.filter(findUnchanged(text, pieces, kept));
    if (unchanged.length === kept.length) return { pieces, kept };
    kept = unchanged;
  }
  return { pieces: [renderChat(tokenizer, messages, options)], kept: [] };
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
  replies: readonly KnownReply[],
  contentOf: (reply: KnownReply) => string,
): readonly ChatMessage[] {
  const changed = [...messages];
  for (const reply of replies) changed[reply.messageIndex] = { role: "assistant", content: contentOf(reply) };
  return changed;
}

/** Walks through the text piece by piece. Behind a reply that is not there as written, it goes on at the next piece. */
function findUnchanged(
  text: string,
  pieces: readonly string[],
  replies: readonly KnownReply[],
): (reply: KnownReply) => boolean {
  const unchanged = new Set<KnownReply>();
  const [first] = pieces;
  invariant(first !== undefined, "a rendering has at least one piece");
  let at = text.startsWith(first) ? first.length : -1;
  for (const [index, reply] of replies.entries()) {
    if (at === -1) break;
    const after = pieces[index + 1] ?? "";
    const isThere = text.startsWith(reply.text, at) && text.startsWith(after, at + reply.text.length);
    if (isThere) unchanged.add(reply);
    const start = isThere ? at + reply.text.length : text.indexOf(after, at);
    at = start === -1 ? -1 : start + after.length;
  }
  return (reply) => unchanged.has(reply);
}

async function joinTokens(
  { tokenizer, encoder }: ChatPromptParts,
  pieces: readonly string[],
  replies: readonly KnownReply[],
  maxTokens: number,
): Promise<Int32Array> {
  const ends = tokenizer.stopIds.map((id) => tokenizer.tokenOf(id) ?? "");
  const parts: Int32Array[] = [];
  const hash = new PromptHash();
  const add = (ids: Int32Array) => {
    parts.push(ids);
    hash.add(ids);
  };
  let before: RecordedReply | undefined;
  for (const [index, piece] of pieces.entries()) {
    const rest = piece.slice(before === undefined ? 0 : writtenEnd(piece, before, ends).length);
    add(await encoder.encode(rest, maxTokens - hash.key.length));
    if (hash.key.length > maxTokens) break;
    const reply = replies[index];
    before = reply && choose(reply, hash);
    if (before !== undefined) add(before.tokenIds);
  }
  return joinIds(parts);
}

/** What the template has written for the end of a reply that brings an end of its own. */
function writtenEnd(piece: string, { endText }: RecordedReply, ends: readonly string[]): string {
  if (endText === "") return "";
  return [endText, ...ends].find((end) => end !== "" && piece.startsWith(end)) ?? "";
}

/** Picks, among replies with the same text, the one that answered exactly these tokens. */
function choose({ candidates }: KnownReply, prompt: PromptHash): RecordedReply {
  const { length, hash } = prompt.key;
  const exact = candidates.find(({ promptKey }) => promptKey.length === length && promptKey.hash === hash);
  const chosen = exact ?? candidates[0];
  invariant(chosen !== undefined, "a known reply has a candidate");
  return chosen;
}
