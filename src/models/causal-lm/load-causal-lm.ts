/** Models from files: Hugging Face folders and GGUF. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { partFor } from "../../torch/distributed/split.ts";
import { type Device, type DType, isFloating } from "../../torch/dtype.ts";
import { isHere } from "../../torch/nn/module.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { locateTensor, type ResolvedCheckpoint, resolveCheckpoint } from "../formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../formats/tensor-files.ts";
import { CausalLm } from "./causal-lm.ts";
import { type CausalLmConfig, parseConfig } from "./config.ts";
import { families } from "./families/table.ts";
import { openGgufModel } from "./gguf/gguf-model.ts";
import type { ModelSpread } from "./model-spread.ts";
import { quantizeModel } from "./quantize-model.ts";
import type { Quantization } from "./quantized-matrix.ts";
import { type NamedWeight, namedWeights } from "./weight-names.ts";

export interface LoadOptions {
  readonly device?: Device;
  /**
   * The type to compute in. Default: the type config.json states; float32 for GGUF, and for float16 on the CPU, which
   * has no float16 products in every libtorch.
   */
  readonly dtype?: DType;
  /** How the model is spread over ranks, of which this one loads its part. Default: all of it is here. */
  readonly spread?: ModelSpread;
  /**
   * Holds the linear layers in fewer bits, for LoRA over them and for sampling; "fp8" for sampling alone. The weights are read on the CPU
   * first. Default: as they are.
   */
  readonly quantization?: Quantization | "fp8" | undefined;
}

/** Loads a model: a Hugging Face folder (config.json and safetensors), or a .gguf file. */
export function loadCausalLm(path: string, { quantization, ...options }: LoadOptions = {}): CausalLm {
  const load = (how: LoadOptions) => (path.endsWith(".gguf") ? loadGguf(path, how) : loadFolder(path, how));
  if (quantization === undefined) return load(options);
  const model = load({ ...options, device: "cpu" });
  return disposeOnError(model, () => quantizeModel(model, quantization, options.device ?? "cpu"));
}

function loadFolder(folder: string, { device = "cpu", dtype, spread }: LoadOptions): CausalLm {
  const config = parseConfig(readConfig(folder), join(folder, "config.json"));
  const checkpoint = resolveCheckpoint(folder);
  expectLayers(config, checkpoint.tensors.keys(), folder);
  const mapped = new MappedCheckpoint(checkpoint);
  const usual = device === "cpu" && config.dtype === "float16" ? "float32" : config.dtype;
  const model = new CausalLm(config, { device, dtype: dtype ?? usual }, spread);
  return disposeOnError(model, () => {
    const weights = namedWeights(model);
    for (const { name } of weights) locateTensor(checkpoint, name);
    refuseUnused(checkpoint, weights);
    try {
      for (const weight of weights) if (isStoredHere(weight)) fill(weight, folder, () => mapped.read(weight.name));
    } finally {
      mapped.dispose();
    }
  });
}

/** Counts layers before memory is taken for them: a config that claims a billion must not get it. */
function expectLayers({ family, numLayers }: CausalLmConfig, names: Iterable<string>, source: string): void {
  const prefix = `${families[family].names.layers.huggingFace}.`;
  let stored = 0;
  for (const name of names) {
    const layer = name.startsWith(prefix) ? Number.parseInt(name.slice(prefix.length), 10) : Number.NaN;
    if (layer >= stored) stored = layer + 1;
  }
  if (stored >= numLayers) return;
  throw new RerollError(
    "CHECKPOINT_MISMATCH",
    `Checkpoint ${source} has the weights of ${stored} layers, its config says ${numLayers}. They belong to different models.`,
  );
}

/** Runs `fillModel` and returns the model; frees its weights if that fails. */
function disposeOnError(model: CausalLm, fillModel: () => void): CausalLm {
  let isFilled = false;
  try {
    fillModel();
    isFilled = true;
    return model;
  } finally {
    if (!isFilled) model.dispose();
  }
}

function loadGguf(path: string, { device = "cpu", dtype = "float32", spread }: LoadOptions): CausalLm {
  const file = openGgufModel(path);
  const config = parseConfig(file.config, path);
  const tensors = [...file.tensors()];
  expectLayers(
    config,
    tensors.map(({ name }) => name),
    path,
  );
  const model = new CausalLm(config, { device, dtype }, spread);
  return disposeOnError(model, () => {
    const weights = new Map(namedWeights(model).map((weight) => [weight.name, weight]));
    for (const stored of tensors) {
      const weight = weights.get(stored.name);
      if (weight === undefined) {
        throw new RerollError(
          "CHECKPOINT_MISMATCH",
          `${path} has a weight "${stored.name}" that this model does not have.`,
        );
      }
      if (isStoredHere(weight)) fill(weight, path, () => tensor(stored.read(), stored.shape));
      weights.delete(stored.name);
    }
    if (weights.size > 0) {
      throw new RerollError("CHECKPOINT_MISMATCH", `${path} lacks ${[...weights.keys()].slice(0, 5).join(", ")}.`);
    }
  });
}

function readConfig(folder: string): unknown {
  const path = join(folder, "config.json");
  if (!existsSync(path)) {
    throw new RerollError(
      "CHECKPOINT_NOT_FOUND",
      `${folder} has no config.json. A model folder has config.json and *.safetensors.`,
    );
  }
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new RerollError("INVALID_CONFIG", `${path} is not JSON: ${String(cause)}.`, {}, { cause });
  }
}

function isStoredHere({ isElsewhere = false, parameter }: NamedWeight): boolean {
  return !isElsewhere && isHere(parameter);
}

/** Copies one stored weight into its place. */
function fill({ name, parameter, viewOf }: NamedWeight, source: string, read: () => Tensor): void {
  tensorScope(() =>
    noGrad(() => {
      const target = viewOf(parameter.detach());
      const value = partFor(target, read(), parameter.shard);
      if (!isFloating(value.dtype)) {
        throw new RerollError(
          "UNSUPPORTED_DTYPE",
          `Checkpoint ${source}: weight "${name}" is stored as ${value.dtype}. Weights are float32, float64, bfloat16 or float16.`,
        );
      }
      if (`${value.shape}` !== `${target.shape}`) {
        throw new RerollError(
          "SHAPE_MISMATCH",
          `Checkpoint ${source}: weight "${name}" has shape [${value.shape.join(", ")}], its config says [${target.shape.join(", ")}].`,
        );
      }
      target.copy_(value);
    }),
  );
}

/** Weights in the file that the model does not use mean the wrong family or a part we do not know: never drop them silently. */
function refuseUnused(checkpoint: ResolvedCheckpoint, weights: readonly NamedWeight[]): void {
  const known = new Set(weights.map(({ name }) => name));
  const harmless = /rotary_emb\.inv_freq$|^lm_head\.weight$/;
  const unused = [...checkpoint.tensors.keys()].filter((name) => !known.has(name) && !harmless.test(name));
  if (unused.length === 0) return;
  throw new RerollError(
    "CHECKPOINT_MISMATCH",
    `Checkpoint ${checkpoint.path} has ${unused.length} weights that its config.json gives no place, such as ` +
      `"${unused.slice(0, 3).join('", "')}". Check model_type, attention_bias and the number of layers.`,
    { unused },
  );
}
