/** The weights of a model as others see them: under their Hugging Face names, with LoRA adapters added in. */
import { noGrad } from "../../torch/autograd.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { loraAdapters, withAdapter } from "./lora.ts";
import { namedWeights, weightValues } from "./weight-names.ts";

/**
 * Views of the parameters, and copies where an adapter changes them. Views change when the model does. Call it in a
 * `tensorScope`, or dispose what it gives.
 */
export function mergedWeights(model: CausalLm): ReadonlyMap<string, Tensor> {
  const adapters = loraAdapters(model);
  return noGrad(
    () =>
      new Map(
        namedWeights(model).map((named) => {
          const { name } = named;
          const weight = weightValues(named);
          const adapter = name.endsWith(".weight") ? adapters.get(name.slice(0, -".weight".length)) : undefined;
          return [name, adapter === undefined ? weight : withAdapter(weight, adapter)];
        }),
      ),
  );
}
