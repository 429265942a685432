/** A reward model of fresh weights, as a folder: a small decoder with a head that was drawn. */
import { createPreset } from "../../src/models/causal-lm/presets.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { saveValueHead, ValueHead } from "../../src/models/causal-lm/value-head.ts";
import { Generator } from "../../src/torch/random.ts";

export function writeRewardModel(folder: string, vocabSize: number, files: ReadonlyMap<string, Uint8Array>): string {
  const generator = new Generator(5);
  const decoder = createPreset("nano", vocabSize, 3);
  const head = new ValueHead(decoder.config.width, { initial: { std: 0.2, generator } });
  saveCausalLm(decoder, folder, { files });
  saveValueHead(head, folder);
  for (const part of [decoder, head, generator]) part.dispose();
  return folder;
}
