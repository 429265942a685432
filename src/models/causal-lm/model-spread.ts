/** How the weights of a model and the tokens of a pass are split over ranks. */
import { RerollError } from "../../errors/reroll-error.ts";
import { Collective } from "../../torch/distributed/collective.ts";
import type { Split } from "../../torch/distributed/split.ts";
import { type DecoderFeatures, usedFeatures } from "./decoder-features.ts";

export interface ModelSpread {
  /** The ranks that split every layer: heads, the width of MLPs and experts, and the vocabulary. Each has all tokens. */
  readonly tensor: Collective;
  /** The ranks that split the tokens of a pass. In attention each has all tokens and some of the heads. */
  readonly context: Collective;
  /** The ranks that have some of the experts each, of every layer. They have tokens of their own, which they send to where the experts are. */
  readonly expert: Collective;
}

/** A model that is all here. */
export const wholeModel: ModelSpread = {
  tensor: Collective.alone,
  context: Collective.alone,
  expert: Collective.alone,
};

/** The split of a parameter whose parts, of these sizes here, are equal on all ranks; null where there is one rank. */
export function splitAlong(dim: number, sizes: readonly number[], ranks: Collective): Split | null {
  return ranks.count === 1 ? null : { ranks, dim, sizes: sizes.map((size) => size * ranks.count) };
}

/** The share of each of several ranks. Throws where there is none: `what` names a size of the model. */
export function evenShare(what: string, size: number, count: number): number {
  if (size % count === 0) return size / count;
  throw new RerollError(
    "INVALID_CONFIG",
    `A model cannot be split over ${count} ranks that do not divide ${what}: it has ${size}. Lower training.strategy.tensor or training.strategy.context.`,
  );
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

function expectExperts({ experts }: DecoderFeatures, count: number): void {
  const problem =
    experts === null
      ? "it has none"
      : experts.hasBias
        ? "they have biases, which are not split"
        : experts.numExperts < count
          ? `it has ${experts.numExperts}`
          : null;
  if (problem === null) return;
  throw new RerollError(
    "INVALID_CONFIG",
    `training.strategy.expert is ${count}, and the experts of this model cannot be dealt out to as many ranks: ${problem}. Set training.strategy.expert to 1, or lower it.`,
  );
}

/** Throws where a model is split that can only be held whole. */
export function expectSplittable(features: DecoderFeatures, { tensor, context, expert }: ModelSpread): void {
  if (expert.count > 1) expectExperts(features, expert.count);
  if (tensor.count === 1 && context.count === 1) return;
  const odd = usedFeatures(features).filter((name) => !splittable.has(name));
  const { experts } = features;
  if (experts !== null && (experts.hasBias || experts.sharedWidth !== null))
    odd.push("experts with biases or a shared one");
  if (odd.length === 0) return;
  throw new RerollError(
    "INVALID_CONFIG",
    `A model of this family cannot be split over ranks: it uses ${odd.join(", ")}. Set training.strategy.tensor and training.strategy.context to 1; zero and offload work with every family.`,
  );
}
