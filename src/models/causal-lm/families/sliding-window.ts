/** Sliding windows as config.json states them: a width, and which layers have it. */
import { z } from "zod";
import type { DecoderFeatures } from "../decoder-features.ts";
import type { ReadContext } from "./family.ts";

/** The keys of families whose layers may slide. */
export const windowKeys = {
  sliding_window: z.number().int().positive().nullish(),
  layer_types: z.array(z.enum(["full_attention", "sliding_attention"])).nullish(),
} as const;

/** Layers that never slide. */
export const noWindow = { slidingWindow: null, fullLayers: null } as const;

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

/** The features that windows come down to. */
type WindowFeatures = Pick<DecoderFeatures, "slidingWindow" | "fullLayers">;

/** The window of a model whose layers slide where `slides` says so, unless layer_types says otherwise. */
export function readWindow(
  keys: WindowKeys,
  slides: (layer: number) => boolean,
  { numLayers, invalid }: ReadContext,
): WindowFeatures {
  const window = keys.sliding_window === undefined ? defaultWindow : keys.sliding_window;
  const types = keys.layer_types;
  if (types && types.length !== numLayers) {
    throw invalid(`layer_types must name the kind of every layer: got ${types.length} for ${numLayers} layers`);
  }
  const isFull = Array.from({ length: numLayers }, (_, layer) =>
    types ? types[layer] !== "sliding_attention" : !slides(layer),
  );
  if (window === null || !isFull.includes(false)) return noWindow;
  return { slidingWindow: window, fullLayers: isFull.includes(true) ? isFull : null };
}

/** The layer_types of these features. */
export function layerTypes({ slidingWindow, fullLayers }: WindowFeatures, numLayers: number): string[] {
  const slides = (layer: number) => slidingWindow !== null && fullLayers?.[layer] !== true;
  return Array.from({ length: numLayers }, (_, layer) => (slides(layer) ? "sliding_attention" : "full_attention"));
}

/** The keys that laterWindowKeys reads back as the same windows. */
export function writeLaterWindow(features: WindowFeatures, numLayers: number): Record<string, unknown> {
  const types = layerTypes(features, numLayers);
  const first = types.indexOf("sliding_attention");
  return {
    ...writeOptionalWindow(features.slidingWindow),
    max_window_layers: first === -1 ? numLayers : first,
    layer_types: types,
  };
}

/** The keys that optionalWindowKeys reads back as the same window. */
export function writeOptionalWindow(window: number | null): Record<string, unknown> {
  return { sliding_window: window, use_sliding_window: window !== null };
}
