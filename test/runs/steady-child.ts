/**
 * Says, as JSON, which kernels OpenBLAS takes here and for which models a request to a steady engine drew the same bits alone, on one thread, and
 * among others on two; and whether a reward model gave the same scores.
 */
import { isDeepStrictEqual } from "node:util";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import type { Family } from "../../src/models/causal-lm/families/table.ts";
import { createPreset } from "../../src/models/causal-lm/presets.ts";
import { ValueHead } from "../../src/models/causal-lm/value-head.ts";
import { scoreConversations } from "../../src/rewards/reward-model/score-conversations.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { native } from "../../src/torch/binding.ts";
import { Generator } from "../../src/torch/random.ts";

/** In widths that leave no rest to libtorch's vector loops, as those of real models do. */
function modelOf(family: Family): CausalLm {
  const { experts, linearAttention } = tinyConfig(family).features;
  const features = {
    experts: experts && { ...experts, width: 32, sharedWidth: experts.sharedWidth && 32 },
    linearAttention: linearAttention && { ...linearAttention, keySize: 8, valueSize: 8 },
  };
  return tinyModel(
    tinyConfig(family, { vocabSize: 48, width: 64, mlpWidth: 64, headSize: 16, maxPositions: 256, features }),
  );
}

const models: Readonly<Record<string, () => CausalLm>> = {
  dense: () => createPreset("nano", 48, 1),
  experts: () => modelOf("qwen3_moe"),
  "linear attention": () => modelOf("qwen3_5_text"),
};

const same: string[] = [];
for (const [name, make] of Object.entries(models)) {
  const model = make();
  const engine = new LocalEngine(model, { contextLength: 128, maxStepTokens: 40, isSteady: true });
  const request = (i: number, maxTokens: number) =>
    engine.generate({
      promptIds: Array.from({ length: 3 + 5 * i }, (_, k) => (7 * k + i) % 48),
      sampling: { maxTokens, seed: i },
    });
  native.setNumThreads(1);
  const alone = await request(0, 20);
  native.setNumThreads(2);
  const [among] = await Promise.all([request(0, 20), ...[1, 2, 3, 4, 5, 6, 7].map((i) => request(i, 2 + 3 * i))]);
  if (isDeepStrictEqual([among!.tokenIds, among!.samplerLogprobs], [alone.tokenIds, alone.samplerLogprobs]))
    same.push(name);
  await engine.close();
  model.dispose();
}

/** In the width of a real model, whose products are large enough for kernels that mix rows. */
const decoder = tinyModel(
  tinyConfig("qwen3", { vocabSize: 48, width: 576, mlpWidth: 768, headSize: 64, maxPositions: 64 }),
);
const head = new ValueHead(576, { initial: { std: 0.5, generator: new Generator(7) } });
const conversations = Array.from({ length: 9 }, (_, i) =>
  Int32Array.from({ length: 1 + i }, (_, k) => (7 * k + i) % 48),
);
const score = (numThreads: number, of: readonly Int32Array[]) => {
  native.setNumThreads(numThreads);
  return scoreConversations({ decoder, head }, of);
};
const alone = conversations.flatMap((one) => score(1, [one]));
if (isDeepStrictEqual(score(2, conversations), alone)) same.push("reward model");
console.log(JSON.stringify({ core: native.openblasCore(), same }));
