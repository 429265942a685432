/** Sliding windows as config.json states them: a width, and which layers have it. */
import { z } from "zod";
import type { ReadContext } from "./family.ts";

/** The keys of families whose layers may slide. */
export const windowKeys = {
  sliding_window: z.number().int().positive().nullish(),
  layer_types: z.array(z.enum(["full_attention", "sliding_attention"])).nullish(),
} as const;

/** The keys of families that slide only when they are told to. */
export const optionalWindowKeys = { ...windowKeys, use_sliding_window: z.boolean().nullish() } as const;

/** The keys of optional windows from which the first layers can be left out. */
export const laterWindowKeys = {
  ...optionalWindowKeys,
  max_window_layers: z.number().int().nonnegative().nullish(),
} as const;

/** The number of full-attention layers before the first window that Hugging Face assumes for a missing max_window_layers. */
export const defaultMaxWindowLayers = 28;

/** The window that Hugging Face assumes for a missing sliding_window. */
const defaultWindow = 4096;

/** The keys that readWindow takes. */
interface WindowKeys {
  readonly sliding_window?: number | null | undefined;
  readonly layer_types?: readonly string[] | null | undefined;
}

/**
 * The window of a model whose layers slide, unless layer_types says otherwise, from layer `first` on. Null for full
 * attention; layers of both kinds in one model are refused.
 */
export function readWindow(keys: WindowKeys, first: number, { numLayers, invalid }: ReadContext): number | null {
  const window = keys.sliding_window === undefined ? defaultWindow : keys.sliding_window;
  if (window === null) return null;
  const isSliding =
    keys.layer_types?.map((type) => type === "sliding_attention") ??
    Array.from({ length: numLayers }, (_, layer) => layer >= first);
  if (new Set(isSliding).size > 1) {
    throw invalid(
      "some layers have full and some sliding attention (layer_types, max_window_layers). Supported: the same for all",
    );
  }
  return isSliding[0] === true ? window : null;
}

/** The keys that laterWindowKeys reads back as the same window in every layer. */
export function writeLaterWindow(window: number | null, numLayers: number): Record<string, unknown> {
  return {
    ...writeOptionalWindow(window),
    max_window_layers: window === null ? numLayers : 0,
    layer_types: new Array<string>(numLayers).fill(window === null ? "full_attention" : "sliding_attention"),
  };
}

/** The keys that optionalWindowKeys reads back as the same window. */
export function writeOptionalWindow(window: number | null): Record<string, unknown> {
  return { sliding_window: window, use_sliding_window: window !== null };
}
