/**
 * Says, as JSON, which kernels OpenBLAS takes here and for which models a request to a steady engine drew the same bits alone, on one thread, and
 * among others on two.
 */
import { isDeepStrictEqual } from "node:util";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import type { Family } from "../../src/models/causal-lm/families/table.ts";
import { createPreset } from "../../src/models/causal-lm/presets.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { native } from "../../src/torch/binding.ts";

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
console.log(JSON.stringify({ core: native.openblasCore(), same }));
