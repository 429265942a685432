/**
 * The token that a chat template writes behind a reply.
 *
 * In: a tokenizer. Out: the one of its stop tokens that the template puts there, or all of them where it puts none. A model may have
 * several, and only a reply that ends with this one stands in the next prompt as it was sampled.
 */
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { renderChat } from "./chat-template.ts";

/** Stands for the reply; from the private use area of Unicode, which templates do not use. */
const MARK = "\ue000reply\ue001";

const known = new WeakMap<Tokenizer, readonly number[]>();

export function replyEnds(tokenizer: Tokenizer): readonly number[] {
  const ends = known.get(tokenizer) ?? findEnds(tokenizer);
  known.set(tokenizer, ends);
  return ends;
}

function findEnds(tokenizer: Tokenizer): readonly number[] {
  const text = renderChat(tokenizer, [
    { role: "user", content: "?" },
    { role: "assistant", content: MARK },
  ]);
  const [, behind = ""] = text.split(MARK);
  const places = tokenizer.stopIds
    .map((id) => ({ id, at: behind.indexOf(tokenizer.tokenOf(id) ?? MARK) }))
    .filter(({ at }) => at !== -1)
    .sort((a, b) => a.at - b.at);
  return places.length === 0 ? tokenizer.stopIds : [places[0]!.id];
}
