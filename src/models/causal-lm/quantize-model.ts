/** Models whose linear layers hold their weights in fewer bits: frozen ones under adapters, or an engine's in 8-bit floats. */
import { noGrad } from "../../torch/autograd.ts";
import type { Device } from "../../torch/dtype.ts";
import { expectFp8 } from "../../torch/fp8.ts";
import { bytesIn } from "../../torch/memory.ts";
import { moveParameter } from "../../torch/nn/module.ts";
import type { CausalLm } from "./causal-lm.ts";
import { Fp8Matrix, fitsFp8 } from "./fp8-matrix.ts";
import { type Quantization, QuantizedMatrix } from "./quantized-matrix.ts";
import { namedProjections } from "./weight-names.ts";

/**
 * Quantizes every linear layer of a model, one after the other, onto a device, and moves the rest of it there: embeddings, norms, biases, the
 * output matrix and stacked experts stay as they are, and layers of a shape that 8-bit floats have no products for. Everything is frozen.
 */
export function quantizeModel(model: CausalLm, quantization: Quantization | "fp8", device: Device): void {
  if (quantization === "fp8") expectFp8(device, "quantization");
  noGrad(() => {
    for (const { projection } of namedProjections(model))
      if (quantization !== "fp8" || fitsFp8(projection.weight.shape)) projection.quantize(quantization, device);
  });
  for (const parameter of model.parameters()) {
    if (parameter.device !== "meta" && parameter.device !== device) moveParameter(parameter, { device });
  }
  model.setTrainable(false);
}

/** Whether a model's linear layers are quantized for good: new weights are then adapters over them. */
export function isQuantized(model: CausalLm): boolean {
  return namedProjections(model).some(({ projection }) => projection.quantized instanceof QuantizedMatrix);
}

/** Whether they are in 8-bit floats, which are made anew of whatever weights come. */
export function isInFp8(model: CausalLm): boolean {
  return namedProjections(model).some(({ projection }) => projection.quantized instanceof Fp8Matrix);
}

/** Bytes that a model takes. */
export function modelBytes(model: CausalLm): number {
  const numQuantized = namedProjections(model).reduce(
    (sum, { projection }) => sum + (projection.quantized?.numBytes ?? 0),
    0,
  );
  return numQuantized + bytesIn(model.parameters().filter(({ device }) => device !== "meta"));
}
