/** Names of tensors: llama.cpp's in, Hugging Face's out, with what has to be done to the values on the way. */
import type { LayerPart, ModelPart } from "../decoder-features.ts";
import type { GgufFamily, ModelFamily, StoredForm, TensorName } from "../families/family.ts";
import { families } from "../families/table.ts";

/** A family that GGUF files can hold. */
export interface StoredFamily extends ModelFamily {
  readonly gguf: GgufFamily;
}

/** The families that GGUF files can hold, by the name of their architecture there. */
export const familyOfArchitecture: ReadonlyMap<string, { readonly modelType: string; readonly family: StoredFamily }> =
  new Map(
    Object.entries<ModelFamily>(families).flatMap(([modelType, family]) => {
      const { gguf } = family;
      return gguf === null ? [] : [[gguf.architecture, { modelType, family: { ...family, gguf } }]];
    }),
  );

/** The role that a tensor of a GGUF file plays in the model on Hugging Face. */
type GgufTensorRole =
  /** A weight under another name. `form` restores its values, where they are stored differently. */
  | { readonly kind: "weight"; readonly name: string; readonly form: StoredForm | null }
  /** The experts of one layer stacked along the first dimension; Hugging Face files have one tensor each. */
  | { readonly kind: "experts"; nameOf(expert: number): string }
  /** Frequency factors, which are configuration and not weights. */
  | { readonly kind: "rope-factors" }
  /** A tensor this architecture does not have. */
  | { readonly kind: "unknown" };

/** Determines the role of a GGUF tensor by its name. */
export function ggufTensorRole(name: string, { names, gguf }: StoredFamily): GgufTensorRole {
  if (name === ropeFactorsName && gguf.hasRopeFactors) return { kind: "rope-factors" };
  const [, layer, module, suffix] = layerPattern(names.layers.gguf).exec(name) ?? [];
  if (layer === undefined || module === undefined || suffix === undefined) {
    const part = findPart(names.model, name.replace(/\.weight$/, ""));
    if (part === undefined || !name.endsWith(".weight")) return { kind: "unknown" };
    return { kind: "weight", name: `${names.model[part].huggingFace}.weight`, form: gguf.storedForms[part] ?? null };
  }
  const part = findPart(names.layer, module);
  if (part === undefined) return { kind: "unknown" };
  const path = `${names.layers.huggingFace}.${layer}.${names.layer[part]?.huggingFace}.${suffix}`;
  if (!path.includes("*")) return { kind: "weight", name: path, form: gguf.storedForms[part] ?? null };
  if (suffix !== "weight") return { kind: "unknown" };
  return { kind: "experts", nameOf: (expert) => path.replace("*", String(expert)) };
}

/** The tensor that holds the factors of rotary frequencies. */
export const ropeFactorsName = "rope_freqs.weight";

function layerPattern(layers: string): RegExp {
  return new RegExp(`^${layers}\\.(0|[1-9][0-9]{0,4})\\.([a-z_]+)\\.(weight|bias)$`);
}

function findPart<Part extends LayerPart | ModelPart>(
  names: Readonly<Partial<Record<Part, TensorName>>>,
  gguf: string,
): Part | undefined {
  const parts = Object.keys(names) as Part[];
  return parts.find((part) => names[part]?.gguf === gguf);
}
