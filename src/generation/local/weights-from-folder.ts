/** Weights from files, for an engine that runs. */
import { resolveCheckpoint } from "../../models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../../models/formats/tensor-files.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** Calls `use` with all weights of a Hugging Face folder. The files are mapped while it runs, so nothing is held twice. */
export function withFolderWeights(folder: string, use: (weights: ReadonlyMap<string, Tensor>) => void): void {
  const checkpoint = resolveCheckpoint(folder);
  const mapped = new MappedCheckpoint(checkpoint);
  try {
    tensorScope(() => use(new Map([...checkpoint.tensors.keys()].map((name) => [name, mapped.read(name)]))));
  } finally {
    mapped.dispose();
  }
}
