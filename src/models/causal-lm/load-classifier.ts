/**
 * A decoder with a head that gives one number, from a folder of Hugging Face's AutoModelForSequenceClassification with one label:
 * `score.weight` among the weights, no output matrix.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { partFor, type Split } from "../../torch/distributed/split.ts";
import { isHere } from "../../torch/nn/module.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type ResolvedCheckpoint, resolveCheckpoint } from "../formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../formats/tensor-files.ts";
import { CausalLm } from "./causal-lm.ts";
import { parseConfig } from "./config.ts";
import type { LoadOptions } from "./load-causal-lm.ts";
import { ValueHead } from "./value-head.ts";
import { namedWeights } from "./weight-names.ts";

export interface SequenceClassifier {
  readonly decoder: CausalLm;
  readonly head: ValueHead;
}

/** The model in a folder, or null where its weights have no `score`. */
export function loadSequenceClassifier(folder: string, options: LoadOptions = {}): SequenceClassifier | null {
  const checkpoint = resolveCheckpoint(folder);
  return checkpoint.tensors.has("score.weight") ? loadClassifier(checkpoint, options) : null;
}

/** The decoder without an output matrix, and `score` as its head. */
function loadClassifier(checkpoint: ResolvedCheckpoint, options: LoadOptions): SequenceClassifier {
  const { path } = checkpoint;
  const { device = "cpu" } = options;
  const configPath = join(path, "config.json");
  // Tied, because the output matrix is neither stored nor used.
  const config = { ...parseConfig(JSON.parse(readFileSync(configPath, "utf8")), configPath), tieEmbeddings: true };
  const usual = device === "cpu" && config.dtype === "float16" ? "float32" : config.dtype;
  expectOneLabel(checkpoint, config.width);
  const decoder = new CausalLm(config, { device, dtype: options.dtype ?? usual }, options.spread);
  const head = headOf(decoder);
  const mapped = new MappedCheckpoint(checkpoint);
  const fill = (name: string, target: () => Tensor, shard: Split | null = null) =>
    copy(name, path, target, (place) => partFor(place, mapped.read(name), shard));
  freeOnError({ decoder, head }, () => {
    try {
      const weights = namedWeights(decoder);
      refuseUnused(checkpoint, new Set(weights.map(({ name }) => name)));
      for (const { name, parameter, viewOf, isElsewhere } of weights)
        if (isElsewhere !== true && isHere(parameter)) fill(name, () => viewOf(parameter.detach()), parameter.shard);
      fill("score.weight", () => head.weight.detach());
      if (checkpoint.tensors.has("score.bias")) fill("score.bias", () => head.bias.detach());
    } finally {
      mapped.dispose();
    }
  });
  return { decoder, head };
}

/** A head of zeros for a decoder, on its last stage. */
export function headOf({ config, device, spread }: CausalLm): ValueHead {
  return new ValueHead(config.width, { device: spread.stages.isLast ? device : "meta" });
}

/** Runs `load`; frees the model if that fails. */
export function freeOnError({ decoder, head }: SequenceClassifier, load: () => void): void {
  let isLoaded = false;
  try {
    load();
    isLoaded = true;
  } finally {
    if (!isLoaded) {
      decoder.dispose();
      head.dispose();
    }
  }
}

function copy(name: string, path: string, target: () => Tensor, source: (place: Tensor) => Tensor): void {
  tensorScope(() =>
    noGrad(() => {
      const to = target();
      const from = source(to);
      if (`${to.shape}` !== `${from.shape}`) {
        throw new RerollError(
          "SHAPE_MISMATCH",
          `Checkpoint ${path}: weight "${name}" has shape [${from.shape.join(", ")}], its config says [${to.shape.join(", ")}].`,
        );
      }
      to.copy_(from);
    }),
  );
}

function expectOneLabel({ path, tensors }: ResolvedCheckpoint, width: number): void {
  const shape = tensors.get("score.weight")?.shape ?? [];
  if (shape.length === 2 && shape[0] === 1 && shape[1] === width) return;
  throw new RerollError(
    "CHECKPOINT_MISMATCH",
    `Checkpoint ${path}: score.weight has shape [${shape.join(", ")}]. A reward model has one label: [1, ${width}].`,
    { shape },
  );
}

function refuseUnused({ path, tensors }: ResolvedCheckpoint, known: ReadonlySet<string>): void {
  const harmless = /rotary_emb\.inv_freq$|^lm_head\.weight$|^score\.(weight|bias)$/;
  const unused = [...tensors.keys()].filter((name) => !known.has(name) && !harmless.test(name));
  if (unused.length === 0) return;
  throw new RerollError(
    "CHECKPOINT_MISMATCH",
    `Checkpoint ${path} has ${unused.length} weights that its config.json gives no place, such as "${unused.slice(0, 3).join('", "')}".`,
    { unused },
  );
}
