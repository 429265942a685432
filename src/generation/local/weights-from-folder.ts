/** Weights from files into a running engine. */
import { resolveCheckpoint } from "../../models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../../models/formats/tensor-files.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** An engine that takes weights by their Hugging Face names: a ThreadedEngine. */
export interface WeightTaker {
  updateWeights(version: number, weights: ReadonlyMap<string, Tensor>): Promise<void>;
}

/**
 * Gives an engine the weights of a Hugging Face folder as a new version. The files are mapped, so nothing is held
 * twice. They must hold all weights of the engine's model and no others, as a trainer of this project writes them.
 */
export async function updateWeightsFrom(engine: WeightTaker, folder: string, version: number): Promise<void> {
  const checkpoint = resolveCheckpoint(folder);
  const mapped = new MappedCheckpoint(checkpoint);
  const weights = new Map<string, Tensor>();
  try {
    for (const name of checkpoint.tensors.keys()) weights.set(name, mapped.read(name));
    await engine.updateWeights(version, weights);
  } finally {
    for (const weight of weights.values()) weight.dispose();
    mapped.dispose();
  }
}
