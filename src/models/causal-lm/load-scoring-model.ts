/**
 * A decoder with a head that gives one number, from a folder: a reward model, or what a critic starts from.
 *
 * Two layouts are read: that of Hugging Face's AutoModelForSequenceClassification with one label, and our own (a language model with
 * value_head.safetensors beside it).
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type LoadOptions, loadCausalLm } from "./load-causal-lm.ts";
import { freeOnError, headOf, loadSequenceClassifier, type SequenceClassifier } from "./load-classifier.ts";
import { loadValueHead, valueHeadFile } from "./value-head.ts";

/** Loads both. */
export function loadScoringModel(folder: string, options: LoadOptions = {}): SequenceClassifier {
  return loadSequenceClassifier(folder, options) ?? loadWithHead(folder, options, true);
}

/** The same, and with a head of zeros where the folder holds a language model without one: every value starts at 0. */
export function loadScoringStart(folder: string, options: LoadOptions = {}): SequenceClassifier {
  const hasHead = existsSync(join(folder, valueHeadFile));
  return loadSequenceClassifier(folder, options) ?? loadWithHead(folder, options, hasHead);
}

function loadWithHead(folder: string, options: LoadOptions, hasHead: boolean): SequenceClassifier {
  const decoder = loadCausalLm(folder, options);
  const head = headOf(decoder);
  if (hasHead) freeOnError({ decoder, head }, () => loadValueHead(head, folder));
  return { decoder, head };
}
