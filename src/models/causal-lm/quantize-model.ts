/** Models whose linear layers hold their weights in fewer bits. */
import { noGrad } from "../../torch/autograd.ts";
import type { Device } from "../../torch/dtype.ts";
import { moveParameter } from "../../torch/nn/module.ts";
import type { CausalLm } from "./causal-lm.ts";
import type { Quantization } from "./quantized-matrix.ts";
import { namedProjections } from "./weight-names.ts";

/**
 * Quantizes every linear layer of a model, one after the other, onto a device, and moves the rest of it there: embeddings, norms, biases, the
 * output matrix and stacked experts stay as they are. Everything is frozen.
 */
export function quantizeModel(model: CausalLm, quantization: Quantization, device: Device): void {
  noGrad(() => {
    for (const { projection } of namedProjections(model)) projection.quantize(quantization, device);
  });
  for (const parameter of model.parameters()) {
    if (parameter.device !== "meta" && parameter.device !== device) moveParameter(parameter, { device });
  }
  model.setTrainable(false);
}

/** Whether a model's linear layers are quantized. */
export function isQuantized(model: CausalLm): boolean {
  return namedProjections(model).some(({ projection }) => projection.quantized !== null);
}
