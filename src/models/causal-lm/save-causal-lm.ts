/** Models to files, in the layout that Hugging Face and every other tool load. */
import { tensorScope } from "../../torch/scope.ts";
import type { FileSink } from "../formats/file-sink.ts";
import type { CausalLm } from "./causal-lm.ts";
import { type CausalLmConfig, toHuggingFaceConfig } from "./config.ts";
import { mergedWeights } from "./merged-weights.ts";
import type { ValueHead } from "./value-head.ts";
import { wholeWeights } from "./whole-weights.ts";
import { writeModelFolder } from "./write-model-folder.ts";

export interface SaveOptions {
  /** Files to write beside the weights, such as the tokenizer's. */
  readonly files?: ReadonlyMap<string, Uint8Array>;
  readonly maxShardBytes?: number;
  /** Whether LoRA adapters are merged into the saved weights. Default false: the base weights are saved without them. */
  readonly isMerged?: boolean;
  /** Whether this rank writes the files. Default true. Of a model that is spread over ranks, all give their part, and one writes. */
  readonly isWriter?: boolean;
  /** Takes the files. Default: they are written at once. */
  readonly sink?: FileSink;
}

/**
 * Writes config.json, the weights and `files` to a folder, replacing a model that is there. To save adapters alone, use saveLora.
 */
export function saveCausalLm(model: CausalLm, folder: string, options: SaveOptions = {}): void {
  tensorScope(() => {
    const { isMerged = false, isWriter = true } = options;
    const values = wholeWeights(model, { isMerged, isKept: isWriter });
    if (isWriter) writeModelFolder(folder, values, toHuggingFaceConfig(storedConfig(model)), options);
  });
}

/**
 * Writes a decoder with a head that gives one number, adapters merged in, as AutoModelForSequenceClassification loads it: one label,
 * the head as `score.weight` and no output matrix. The head's bias has no place there and must be 0.
 */
export function saveSequenceClassifier(
  model: CausalLm,
  head: ValueHead,
  folder: string,
  options: Omit<SaveOptions, "isMerged"> = {},
): void {
  tensorScope(() => {
    const decoder = [...mergedWeights(model)].filter(([name]) => name !== "lm_head.weight");
    const values = new Map([...decoder, ["score.weight", head.weight.detach()]]);
    writeModelFolder(folder, values, classifierConfig(storedConfig(model)), options);
  });
}

function classifierConfig(config: CausalLmConfig): Record<string, unknown> {
  const causal = toHuggingFaceConfig(config);
  return {
    ...causal,
    architectures: [String((causal.architectures as string[])[0]).replace("ForCausalLM", "ForSequenceClassification")],
    tie_word_embeddings: false,
    num_labels: 1,
    id2label: { 0: "score" },
    label2id: { score: 0 },
  };
}

function storedConfig(model: CausalLm): CausalLmConfig {
  const { dtype } = model.embedding;
  return { ...model.config, dtype: dtype === "bfloat16" || dtype === "float16" ? dtype : "float32" };
}
