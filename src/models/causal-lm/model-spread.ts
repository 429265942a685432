/** How the weights of a model and the tokens of a pass are split over ranks. */
import { invariant } from "../../errors/reroll-error.ts";
import { Collective } from "../../torch/distributed/collective.ts";
import type { Split } from "../../torch/distributed/split.ts";
import { Stages } from "../../torch/distributed/stages.ts";
import type { CausalLmConfig } from "./config.ts";
import { type DecoderFeatures, usedFeatures } from "./decoder-features.ts";

export interface ModelSpread {
  /** The ranks that split every layer: heads, the width of MLPs and experts, and the vocabulary. Each has all tokens. */
  readonly tensor: Collective;
  /** The ranks that split the tokens of a pass. In attention each has all tokens and some of the heads. */
  readonly context: Collective;
  /** The ranks that have some of the experts each, of every layer. They have tokens of their own, which they send to where the experts are. */
  readonly expert: Collective;
  /** Whether the ranks that have experts have the same tokens instead, as those of an engine do: each computes what its experts make of them. Default false. */
  readonly sharesTokens?: boolean;
  /** The ranks that have consecutive layers each. The first has the embedding, the last one the output matrix. */
  readonly stages: Stages;
}

/** A model that is all here. */
export const wholeModel: ModelSpread = {
  tensor: Collective.alone,
  context: Collective.alone,
  expert: Collective.alone,
  stages: Stages.alone,
};

/** The split of a parameter whose parts, of these sizes here, are equal on all ranks; null where there is one rank. */
export function splitAlong(dim: number, sizes: readonly number[], ranks: Collective): Split | null {
  return ranks.count === 1 ? null : { ranks, dim, sizes: sizes.map((size) => size * ranks.count) };
}

/** The share of each of several ranks, which divide the size: see `splitProblem`. */
export function evenShare(size: number, count: number): number {
  invariant(size % count === 0, `${count} ranks do not divide ${size}`);
  return size / count;
}

/** Features of the models that have been compared with one rank, when heads, widths, the vocabulary or tokens are split. */
const splittable: ReadonlySet<string> = new Set<keyof DecoderFeatures>([
  "hasQkvBias",
  "hasOutputBias",
  "hasMlpBias",
  "hasHeadNorm",
  "slidingWindow",
  "experts",
]);

/** Why experts cannot be dealt out to this many ranks; null where they can. */
function expertProblem({ experts }: DecoderFeatures, count: number, prefix: string): string | null {
  if (count === 1 || (experts !== null && !experts.hasBias && experts.numExperts >= count)) return null;
  const why =
    experts === null
      ? "the model has none"
      : experts.hasBias
        ? "they have biases, which are not dealt out"
        : `there are ${experts.numExperts}`;
  return `${prefix}expert is ${count}, and experts cannot be dealt out to as many ranks: ${why}. Set it to ${experts === null || experts.hasBias ? 1 : `${experts.numExperts} or less`}.`;
}

/** How many ranks split a model, by what each of them has of it. */
export interface SplitCounts {
  readonly tensor: number;
  readonly context: number;
  readonly expert: number;
  readonly pipeline: number;
}

/**
 * Why a model cannot be split over this many ranks, as a sentence about what the user typed; null where it can.
 *
 * @param prefix what stands before the name of a count where the user typed it, as in "training.strategy." or "--"
 */
export function splitProblem(
  { features, ...sizes }: Sizes,
  { tensor, context, expert, pipeline }: SplitCounts,
  prefix = "training.strategy.",
): string | null {
  if (sizes.numLayers < pipeline)
    return `${prefix}pipeline must be at most the number of layers: got ${pipeline}, and the model has ${sizes.numLayers}. Every stage needs one.`;
  const problem = expertProblem(features, expert, prefix);
  if (problem !== null || (tensor === 1 && context === 1)) return problem;
  const { experts } = features;
  const odd = usedFeatures(features).filter((name) => !splittable.has(name));
  if (experts !== null && (experts.hasBias || experts.sharedWidth !== null))
    odd.push("experts with biases or a shared one");
  if (odd.length > 0)
    return `${prefix}${tensor > 1 ? "tensor" : "context"} splits the model, and one of this family cannot be split over ranks: it uses ${odd.join(", ")}. ${prefix === "training.strategy." ? "Set tensor and context to 1; zero and offload work with every family." : `Set it to 1${experts === null ? "." : ", and deal out the experts alone with expert."}`}`;
  const parts = [
    { size: sizes.numHeads, what: "heads" },
    { size: sizes.numKeyValueHeads, what: "heads of keys and values" },
    ...(experts === null ? [{ size: sizes.mlpWidth, what: "columns in its MLPs" }] : []),
    ...(experts !== null && expert === 1 ? [{ size: experts.width, what: "columns in its experts" }] : []),
  ];
  const uneven = parts.find(({ size }) => size % tensor !== 0);
  if (uneven !== undefined)
    return `${prefix}tensor must divide the parts of the model: got ${tensor}, and it has ${uneven.size} ${uneven.what}. Use ${largestDivisor(parts, tensor)}.`;
  const numHeads = sizes.numHeads / tensor;
  const numKeyValueHeads = sizes.numKeyValueHeads / tensor;
  return numHeads % (numKeyValueHeads * repeatsOf(numKeyValueHeads, context)) === 0
    ? null
    : `${prefix}context must deal out the heads of the model evenly: got ${context}, and each rank has ${numHeads}, with ${numKeyValueHeads} of keys and values. Use a divisor of both.`;
}

type Sizes = Pick<CausalLmConfig, "features" | "numHeads" | "numKeyValueHeads" | "mlpWidth" | "numLayers">;

/** How often heads of keys and values are repeated, so that each of `count` ranks gets as many. */
export function repeatsOf(numKeyValueHeads: number, count: number): number {
  return Array.from({ length: count }, (_, i) => i + 1).find((times) => (numKeyValueHeads * times) % count === 0)!;
}

function largestDivisor(parts: readonly { readonly size: number }[], atMost: number): number {
  for (let count = atMost; ; count--) if (parts.every(({ size }) => size % count === 0)) return count;
}
