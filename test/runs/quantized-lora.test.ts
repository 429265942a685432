/** Adapters over quantized weights: they learn as over whole ones, and the engine of a run samples what its trainer trains. */
import { expect, test } from "vitest";
import { sortDigits } from "../../bench/sort-digits.ts";
import { addLora } from "../../src/models/causal-lm/lora.ts";
import { createPreset } from "../../src/models/causal-lm/presets.ts";
import { quantizeModel } from "../../src/models/causal-lm/quantize-model.ts";
import type { Quantization } from "../../src/models/causal-lm/quantized-matrix.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs } from "../../src/models/causal-lm/token-logprobs.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { tensor } from "../../src/torch/create.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import { Generator } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { trainSmall } from "./small-run.ts";

const run = (quantization: Quantization | null, steps: number) => ({
  seed: 2,
  model: { preset: "nano", lora: { rank: 8, alpha: 16 }, quantization },
  envs: { sort: { type: "custom", ...sortDigits({ numDigits: 2, base: 8 }) } },
  rollout: { groupsPerStep: 4, groupSize: 4, contextLength: 16, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 1e-2 } },
  loop: { type: "sync", steps },
});

test("in a run over 4-bit weights the sampler has the trainer's log-probs after every update, and adapters alone travel", async () => {
  const { metrics } = await trainSmall(run("nf4", 3));
  expect(metrics).toHaveLength(3);
  for (const step of metrics) expect(step["train/sampler_gap_max"]).toBeLessThan(1e-5);
  // Two matrices of rank 8 for each of 14 projections, and their scales; the whole model has more than four times as many bytes.
  expect(metrics[0]!["sync/bytes"]).toBeLessThan(108_928);
});

/** The loss before and after 40 updates of adapters on sixteen tokens to know by heart. */
function learnByHeart(quantization: Quantization | null): { first: number; last: number } {
  const generator = new Generator(3);
  const model = createPreset("nano", 32, 1);
  if (quantization !== null) quantizeModel(model, quantization, "cpu");
  addLora(model, { rank: 4, alpha: 8, targets: "all-linear", generator });
  const optimizer = new AdamW(model.namedParameters(), { lr: 1e-2 });
  const losses = Array.from({ length: 40 }, () =>
    tensorScope(() => {
      const ids = Int32Array.from({ length: 17 }, (_, i) => (i * i * 5 + 3 * i) % 32);
      const ids_S = tensor(ids, [17], { dtype: "int64" });
      const hidden_SD = model.forward(ids_S.narrow(0, 0, 16), packedLayout([16]));
      const loss = tokenLogprobs(hidden_SD, model.head, ids_S.narrow(0, 1, 16))
        .logprobs_S.mean()
        .neg();
      model.zeroGrad();
      loss.backward();
      optimizer.step();
      return loss.item();
    }),
  );
  model.dispose();
  return { first: losses[0]!, last: losses.at(-1)! };
}

test("adapters over 8 and 4 bits learn by heart what those over whole weights learn", () => {
  const whole = learnByHeart(null);
  expect(whole.last).toBeLessThan(whole.first / 10);
  for (const quantization of ["int8", "int4", "nf4"] as const) {
    const { first, last } = learnByHeart(quantization);
    expect(Math.abs(first - whole.first)).toBeLessThan(0.3);
    expect(last).toBeLessThan(1.5 * whole.last + 0.05);
  }
});

test.each([
  [{ lora: null }, {}, /quantized weights cannot be trained. Train adapters over them: set model.lora/],
  [{}, { training: { optimizer: { lr: 1e-2 }, ranks: 2 } }, /Set training.ranks to 1, or leave out model.quantization/],
] as const)("%j with quantization and %j is refused with what to change", async (model, others, message) => {
  const file = { ...run("nf4", 1), device: "cpu", ...others };
  await expect(prepareRun({ ...file, model: { ...file.model, ...model } }, [], {})).rejects.toThrow(message);
});
