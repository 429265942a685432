/**
 * Adapters that come without the weights they change: an engine of the same model adds them to those of its files. So a LoRA run sends its adapters
 * and no more, and no device holds weights for it that nobody computes with.
 */
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { adapterPaths } from "../../models/causal-lm/adapter-weights.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { withAdapter } from "../../models/causal-lm/lora.ts";
import { namedWeights, writeWeight } from "../../models/causal-lm/weight-names.ts";
import { resolveCheckpoint } from "../../models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../../models/formats/tensor-files.ts";
import { noGrad } from "../../torch/autograd.ts";
import { partFor } from "../../torch/distributed/split.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** Makes every weight that has an adapter that of the folder with the adapter added in, as the trainer adds it: to the bit. */
export function mergeAdapters(model: CausalLm, folder: string, adapters: ReadonlyMap<string, Tensor>): void {
  const places = new Map(namedWeights(model).map((weight) => [weight.name, weight]));
  const paths = adapterPaths(adapters);
  const unknown = paths.find((path) => !places.has(`${path}.weight`));
  if (unknown !== undefined)
    throw new RerollError(
      "WEIGHTS_MISMATCH",
      `The engine's model has no module "${unknown}", which an adapter is for.`,
    );
  const files = new MappedCheckpoint(resolveCheckpoint(folder));
  try {
    for (const path of paths)
      noGrad(() =>
        tensorScope(() => {
          const weight = places.get(`${path}.weight`)!;
          const { dtype } = weight.parameter;
          const { device } = model.embedding;
          const base = files.read(`${path}.weight`).to(dtype).toDevice(device);
          const part = (name: string) => {
            const found = adapters.get(`${path}.${name}`);
            invariant(found !== undefined, `an adapter came without ${name}`);
            return found;
          };
          const [a, b] = [part("lora_A.weight"), part("lora_B.weight")].map((one) => one.toDevice(device));
          const merged = withAdapter(base, { a: a!, b: b!, scale: part("lora_scale").item() });
          writeWeight(weight, partFor(weight.viewOf(weight.parameter.detach()), merged, weight.parameter.shard));
        }),
      );
  } finally {
    files.dispose();
  }
}
