/** A value for every token: one linear map of the hidden state, computed in float32. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { zeros } from "../../torch/create.ts";
import type { Device } from "../../torch/dtype.ts";
import { createParameter, initialize } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import type { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { linear } from "../../torch/steady-products.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type FileSink, toDisk } from "../formats/file-sink.ts";
import { resolveCheckpoint } from "../formats/resolve-checkpoint.ts";
import { MappedCheckpoint, tensorSource } from "../formats/tensor-files.ts";

/** The file of a head beside the decoder it belongs to. */
export const valueHeadFile = "value_head.safetensors";

export interface ValueHeadOptions {
  readonly device?: Device;
  /** Draws the first weights from a normal with this `std`. Default zero: every value starts at 0. */
  readonly initial?: { readonly std: number; readonly generator: Generator };
}

/** hidden W' + b. Its own parameters are float32 whatever the decoder is: values are not bounded as activations are. */
export class ValueHead extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;

  constructor(width: number, { device = "cpu", initial }: ValueHeadOptions = {}) {
    super();
    this.weight =
      initial === undefined
        ? createParameter([1, width], zeros, { device })
        : createParameter([1, width], initialize.normal(0, initial.std), { device, generator: initial.generator });
    this.bias = createParameter([1], zeros, { device });
  }

  /** One value per token, float32: [S, D] to [S]. */
  forward(hidden_SD: Tensor): Tensor {
    return linear(hidden_SD.to("float32"), this.weight, this.bias).squeeze(-1);
  }
}

/** Writes value_head.safetensors to a folder, such as that of the decoder it belongs to. */
export function saveValueHead(head: ValueHead, folder: string, sink: FileSink = toDisk): void {
  mkdirSync(folder, { recursive: true });
  tensorScope(() => {
    const sources = [...head.stateDict()].map(([name, value]) => tensorSource(`${prefix}${name}`, value));
    sink.tensors(join(folder, valueHeadFile), sources);
  });
}

/** Reads value_head.safetensors into a head of the same width. */
export function loadValueHead(head: ValueHead, folder: string): void {
  const checkpoint = resolveCheckpoint(join(folder, valueHeadFile));
  const mapped = new MappedCheckpoint(checkpoint);
  try {
    tensorScope(() => {
      const names = [...head.namedParameters().keys()];
      head.loadStateDict(new Map(names.map((name) => [name, mapped.read(`${prefix}${name}`)])));
    });
  } finally {
    mapped.dispose();
  }
}

const prefix = "value_head.";
