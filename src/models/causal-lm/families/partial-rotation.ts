/** Heads of which only the first part is rotated, as config.json states it: as a share of the head. */
import { z } from "zod";
import type { ReadContext } from "./family.ts";

const share = z.number().positive().max(1).nullish();

/** The keys of families whose heads may be rotated in part; newer versions of transformers keep the share with the rope. */
export const partialRotationKeys = {
  partial_rotary_factor: share,
  rope_parameters: z.looseObject({ partial_rotary_factor: share }).nullish(),
  rope_scaling: z.looseObject({ partial_rotary_factor: share }).nullish(),
} as const;

type Keys = z.infer<z.ZodObject<typeof partialRotationKeys>>;

/** The number of rotated values of a head, or null for all of them. */
export function readRotarySize(keys: Keys, defaultShare: number, { headSize, invalid }: ReadContext): number | null {
  const stated = keys.rope_parameters?.partial_rotary_factor ?? keys.rope_scaling?.partial_rotary_factor;
  const size = Math.floor(headSize * (stated ?? keys.partial_rotary_factor ?? defaultShare));
  if (size < 2 || size % 2 !== 0) {
    throw invalid(`partial_rotary_factor must leave an even number of rotated values: got ${size} of ${headSize}`);
  }
  return size === headSize ? null : size;
}

/** A config.json without the share, which the shared keys know nothing of. */
export function withoutRotaryShare(json: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const bare = (rope: unknown) => {
    if (typeof rope !== "object" || rope === null) return rope;
    const { partial_rotary_factor: _, ...rest } = rope as Record<string, unknown>;
    return rest;
  };
  const { partial_rotary_factor: _, ...rest } = json;
  return { ...rest, rope_parameters: bare(json.rope_parameters), rope_scaling: bare(json.rope_scaling) };
}

/** The keys that are read back as this many rotated values. */
export function writeRotarySize(
  rotarySize: number | null,
  headSize: number,
  rope: Record<string, unknown>,
): Record<string, unknown> {
  const partial_rotary_factor = (rotarySize ?? headSize) / headSize;
  return { partial_rotary_factor, rope_parameters: { ...rope, partial_rotary_factor } };
}
