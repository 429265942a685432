/**
 * LoRA adapters in files, in the layout of PEFT: adapter_config.json and adapter_model.safetensors.
 *
 * The layout is documented in PEFT's "checkpoint format" guide. Settings that change what an adapter computes and that
 * we do not compute are refused.
 */

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { empty, type TensorOptions } from "../../torch/create.ts";
import { partOf, type Split } from "../../torch/distributed/split.ts";
import type { DType } from "../../torch/dtype.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { tensorScope } from "../../torch/scope.ts";
import { type FileSink, toDisk } from "../formats/file-sink.ts";
import { type ResolvedCheckpoint, resolveCheckpoint } from "../formats/resolve-checkpoint.ts";
import { MappedCheckpoint, tensorSource } from "../formats/tensor-files.ts";
import type { CausalLm } from "./causal-lm.ts";
import { attachLora, expectAdapters, type LoraSite, loraAdapters, loraSites, moduleName } from "./lora.ts";
import { LoraAdapter } from "./projection.ts";
import { wholeAdapters } from "./whole-weights.ts";

export interface SaveLoraOptions {
  /** The name or folder of the model the adapters belong to, for tools that load both. Default none. */
  readonly baseModel?: string;
  /** Whether this rank writes the files. Default true. Of a model that is spread over ranks, all give their part, and one writes. */
  readonly isWriter?: boolean;
  /** Takes the files. Default: they are written at once. */
  readonly sink?: FileSink;
}

/** Writes the adapters of a model, in their type, to a folder. */
export function saveLora(
  model: CausalLm,
  folder: string,
  { baseModel, isWriter = true, sink = toDisk }: SaveLoraOptions = {},
): void {
  expectAdapters(model, "saveLora");
  const adapters = loraAdapters(model);
  const [first] = adapters.values();
  invariant(first !== undefined, "a model with adapters has a first one");
  const config = {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: baseModel ?? null,
    r: first.rank,
    lora_alpha: first.scaling.alpha,
    use_rslora: first.scaling.isRankStabilized,
    target_modules: targetsOf(model, adapters),
    bias: "none",
    lora_dropout: 0,
    fan_in_fan_out: false,
    init_lora_weights: true,
    inference_mode: true,
    modules_to_save: null,
    rank_pattern: {},
    alpha_pattern: {},
    use_dora: false,
  };
  if (isWriter) mkdirSync(folder, { recursive: true });
  tensorScope(() => {
    const sources = wholeAdapters(model).flatMap(({ path, a, b }) => [
      tensorSource(weightName(path, "A"), a),
      tensorSource(weightName(path, "B"), b),
    ]);
    if (isWriter) sink.tensors(join(folder, weightsFileName), sources);
  });
  if (!isWriter) return;
  const text = new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`);
  sink.bytes(join(folder, configFileName), text);
}

export interface LoadLoraOptions {
  /** The type of the adapters. Default: the type of the model. */
  readonly dtype?: DType;
}

/** Adds the adapters of a folder to a model that has none, and freezes everything else. */
export function loadLora(model: CausalLm, folder: string, { dtype }: LoadLoraOptions = {}): void {
  const config = readAdapterConfig(join(folder, configFileName));
  const sites = loraSites(model, config.target_modules);
  const checkpoint = resolveWeights(folder);
  refuseUnused(checkpoint, sites);
  const mapped = new MappedCheckpoint(checkpoint);
  const scaling = { alpha: config.lora_alpha, isRankStabilized: config.use_rslora };
  try {
    attachLora(model, sites, ({ path, part, inputWidth, splits, device }) => {
      const place = { dtype: dtype ?? model.embedding.dtype, device };
      const read = (matrix: "A" | "B", shape: readonly number[], split: Split | null) =>
        readParameter(mapped, checkpoint.path, weightName(path, matrix), shape, place, split);
      const a = read("A", [config.r, inputWidth], splits.a);
      const b = read("B", [part.width, config.r], splits.b);
      return new LoraAdapter(part.name, a, b, scaling);
    });
  } finally {
    mapped.dispose();
  }
}

const configFileName = "adapter_config.json";
const weightsFileName = "adapter_model.safetensors";

function weightName(path: string, matrix: "A" | "B"): string {
  return `base_model.model.${path}.lora_${matrix}.weight`;
}

/** The shortest list of targets that means these adapters: a part's name where every layer has it, else its path. */
function targetsOf(model: CausalLm, adapters: ReadonlyMap<string, LoraAdapter>): string[] {
  const missing = new Set(
    loraSites(model, "all-linear").flatMap(({ path }) => (adapters.has(path) ? [] : moduleName(path))),
  );
  return [...new Set([...adapters.keys()].map((path) => (missing.has(moduleName(path)) ? path : moduleName(path))))];
}

/** A setting of PEFT that we do not have must be absent or off. */
const unset = z.union([z.null(), z.literal(false), z.array(z.never()), z.strictObject({})]).optional();

// Defaults are PEFT's, whose files may leave out what has one.
const adapterConfigSchema = z.object({
  peft_type: z.literal("LORA"),
  r: z.number().int().positive().default(8),
  lora_alpha: z.number().positive().default(8),
  use_rslora: z.boolean().default(false),
  target_modules: z.union([z.array(z.string()).min(1), z.literal("all-linear")]),
  bias: z.literal("none").default("none"),
  // Other ways to start change the base weights too.
  init_lora_weights: z.union([z.boolean(), z.literal("gaussian")]).default(true),
  rank_pattern: unset,
  alpha_pattern: unset,
  modules_to_save: unset,
  layers_to_transform: unset,
  layer_replication: unset,
  exclude_modules: unset,
  target_parameters: unset,
  trainable_token_indices: unset,
  fan_in_fan_out: unset,
  lora_bias: unset,
  use_dora: unset,
  use_qalora: unset,
  use_bdlora: unset,
  alora_invocation_tokens: unset,
  arrow_config: unset,
  kasa_config: unset,
  monteclora_config: unset,
  velora_config: unset,
});

function readAdapterConfig(path: string): z.infer<typeof adapterConfigSchema> {
  const json = readJson(path);
  const parsed = adapterConfigSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(({ path: [key] }) => {
    const name = String(key ?? "the file");
    return `${name}: got ${JSON.stringify(valueAt(json, name)) ?? "nothing"}, allowed ${allowedValues(name)}`;
  });
  throw new RerollError("INVALID_ADAPTER", `${path} is not a LoRA adapter we can load. ${issues.join("; ")}.`);
}

function allowedValues(key: string): string {
  const values: Readonly<Record<string, string>> = {
    "the file": "an object",
    peft_type: '"LORA"',
    r: "an integer above 0",
    lora_alpha: "a number above 0",
    use_rslora: "true or false",
    target_modules: 'a list of names or "all-linear"',
    bias: '"none"',
    init_lora_weights: 'true, false or "gaussian"',
  };
  return values[key] ?? "none, as it is not supported";
}

function valueAt(json: unknown, key: string): unknown {
  return typeof json === "object" && json !== null ? Object.entries(json).find(([name]) => name === key)?.[1] : json;
}

function readJson(path: string): unknown {
  if (!existsSync(path)) {
    throw new RerollError(
      "ADAPTER_NOT_FOUND",
      `There is no ${path}. An adapter has ${configFileName} and ${weightsFileName}.`,
    );
  }
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new RerollError("INVALID_ADAPTER", `${path} is not JSON: ${String(cause)}.`, {}, { cause });
  }
}

function resolveWeights(folder: string): ResolvedCheckpoint {
  const path = join(folder, weightsFileName);
  if (existsSync(path)) return resolveCheckpoint(path);
  const hint = existsSync(join(folder, "adapter_model.bin")) ? " Save adapter_model.bin again as safetensors." : "";
  throw new RerollError("ADAPTER_NOT_FOUND", `There is no ${path}.${hint}`);
}

/** Every weight of the file must have its place in the model. */
function refuseUnused({ path, tensors }: ResolvedCheckpoint, sites: readonly LoraSite[]): void {
  const known = new Set(sites.flatMap((site) => [weightName(site.path, "A"), weightName(site.path, "B")]));
  const unused = [...tensors.keys()].filter((name) => !known.has(name));
  if (unused.length === 0) return;
  throw new RerollError(
    "CHECKPOINT_MISMATCH",
    `Adapter ${path} has ${unused.length} weights that its target_modules give no place in this model, such as ` +
      `"${unused.slice(0, 3).join('", "')}". Check that it was trained on this model.`,
    { unused },
  );
}

function readParameter(
  mapped: MappedCheckpoint,
  source: string,
  name: string,
  shape: readonly number[],
  place: TensorOptions,
  split: Split | null,
): Parameter {
  return tensorScope(() => {
    const value = mapped.read(name);
    if (`${value.shape}` !== `${shape}`) {
      throw new RerollError(
        "SHAPE_MISMATCH",
        `Adapter ${source}: weight "${name}" has shape [${value.shape.join(", ")}]. ` +
          `Its rank and this model need [${shape.join(", ")}].`,
      );
    }
    const parameter = createParameter(shape, empty, place, split);
    noGrad(() => parameter.copy_(split === null ? value : partOf(value, split)));
    return parameter;
  });
}
