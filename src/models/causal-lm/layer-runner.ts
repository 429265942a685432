/** How the layers of a model are run, and where their weights are meanwhile. */
import { recompute } from "../../torch/recompute.ts";
import type { Tensor } from "../../torch/tensor.ts";

interface LayerOptions {
  /** Compute the layer again in the backward pass instead of keeping what it made. */
  readonly recompute?: boolean;
  /** The weights of the layer that learn. */
  readonly parameters: () => readonly Tensor[];
}

export interface LayerRunner {
  /** Whether all weights are always there. */
  readonly isResident: boolean;
  /** Before a forward pass. */
  begin(): void;
  /** Runs layer `index`, which `layer` computes. */
  run(index: number, layer: (x: Tensor) => Tensor, x: Tensor, options: LayerOptions): Tensor;
  /** Runs `body` while the weights of a layer are there; null: those of no layer. */
  withWeights<Result>(index: number | null, body: () => Result): Result;
}

/** Weights that are always there. */
export const residentLayers: LayerRunner = {
  isResident: true,
  begin: () => {},
  run: (_, layer, x, options) => (options.recompute === true ? recompute(layer, x, options.parameters()) : layer(x)),
  withWeights: (_, body) => body(),
};
