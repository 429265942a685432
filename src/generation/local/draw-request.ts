/** How the next token of a sequence is to be drawn. */
import { type DrawRequest, isTemperatureOnly } from "./sampler.ts";
import type { Piece } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";
import { uniformAt } from "./uniform.ts";

/** Whether a step needs no scores on the host for this piece: one token of a reply, drawn by temperature and a mask alone. */
export function isPlainDecode({ sequence, numTokens, isLast }: Piece): boolean {
  const { numDrawn, sampling, numTopLogprobs } = sequence;
  const isPlain = numTopLogprobs === 0 && isTemperatureOnly(sampling);
  return numTokens === 1 && isLast && numDrawn > 0 && isPlain;
}

/** What the next token of a sequence is drawn with. */
export function drawRequest(sequence: Sequence): DrawRequest {
  const { sampling, tokens, promptLength, numTopLogprobs, seed, length, guide } = sequence;
  // The position in the sequence, not in the reply: a reply that is cut and continued draws the same numbers.
  const uniform = uniformAt(seed, length);
  return { sampling, tokens, promptLength, numTopLogprobs, uniform, mask: guide === null ? null : guide.mask };
}
