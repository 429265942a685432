/** A reward model from a folder: a decoder, a head that gives one number, and a tokenizer with a chat template of its own. */
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import type { LoadOptions } from "../../models/causal-lm/load-causal-lm.ts";
import type { SequenceClassifier } from "../../models/causal-lm/load-classifier.ts";
import { loadScoringModel } from "../../models/causal-lm/load-scoring-model.ts";

export interface RewardModel extends SequenceClassifier {
  readonly tokenizer: Tokenizer;
}

export async function loadRewardModel(folder: string, options: LoadOptions = {}): Promise<RewardModel> {
  const tokenizer = await loadTokenizer(folder);
  return { ...loadScoringModel(folder, options), tokenizer };
}
