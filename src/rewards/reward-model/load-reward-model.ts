/**
 * A reward model from a folder: a decoder, a head that gives one number, and a tokenizer with a chat template.
 *
 * Two layouts are read: that of Hugging Face's AutoModelForSequenceClassification with one label (`score.weight` among the
 * weights, no output matrix), and our own (a language model with value_head.safetensors beside it).
 */
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { type LoadOptions, loadCausalLm } from "../../models/causal-lm/load-causal-lm.ts";
import {
  freeOnError,
  loadSequenceClassifier,
  type SequenceClassifier,
} from "../../models/causal-lm/load-classifier.ts";
import { loadValueHead, ValueHead } from "../../models/causal-lm/value-head.ts";

export interface RewardModel extends SequenceClassifier {
  readonly tokenizer: Tokenizer;
}

export async function loadRewardModel(folder: string, options: LoadOptions = {}): Promise<RewardModel> {
  const tokenizer = await loadTokenizer(folder);
  const classifier = loadSequenceClassifier(folder, options);
  if (classifier !== null) return { ...classifier, tokenizer };
  const { device = "cpu" } = options;
  const decoder = loadCausalLm(folder, options);
  const head = new ValueHead(decoder.config.width, { device });
  freeOnError({ decoder, head }, () => loadValueHead(head, folder));
  return { decoder, head, tokenizer };
}
