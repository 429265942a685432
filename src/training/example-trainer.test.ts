import { expect, test } from "vitest";
import type { TuningExample } from "../flow/tuning-example.ts";
import { createPreset } from "../models/causal-lm/presets.ts";
import { tokenLogprobs } from "../models/causal-lm/token-logprobs.ts";
import { stack, tensor } from "../torch/create.ts";
import { ExampleTrainer } from "./example-trainer.ts";
import type { Objective, ObjectivePass } from "./objectives/objective.ts";
import { supervised } from "./objectives/supervised.ts";
import { toGrid } from "./token-rows.ts";
import { buildOptimizer } from "./trainer-options.ts";

const sequence = (tokenIds: number[], numPrompt: number) => ({
  tokenIds: Int32Array.from(tokenIds),
  lossMask: new Uint8Array(tokenIds.length).fill(1, numPrompt),
});
const pair = (chosen: number[], rejected: number[], weight: number): TuningExample => ({
  sequences: [sequence(chosen, 2), sequence(rejected, 2)],
  numbers: { weight },
});
const pairs = [pair([1, 2, 3, 4], [1, 2, 5], 1), pair([1, 3, 3], [1, 3, 6, 7, 8], 2), pair([2, 2, 9], [2, 2, 1], 4)];

/** Log-probs of the sequences of each example, [E, 2]. */
function logprobs(pass: ObjectivePass) {
  const { packed, hidden_SD, model } = pass;
  const { logprobs_S } = tokenLogprobs(hidden_SD.indexSelect(0, packed.before_N), model.head, packed.targets_N);
  return toGrid(logprobs_S, packed).sum(1).view(pass.examples.length, 2);
}

/** The chosen sequence made likelier than at the start, by the weight of the pair, and by a mean over the batch. */
const objective: Objective = {
  measure: (pass) => ({ before: logprobs(pass).select(1, 0), rejected: logprobs(pass).select(1, 1) }),
  batchMeans: (pass) => {
    const rejected_E = logprobs(pass).select(1, 1);
    return { rejected: { sum: rejected_E.sum(), count: tensor(pass.examples.length) } };
  },
  loss: (pass, { numExamples, means }) => {
    const column = (name: string) => tensor(pass.examples.map(({ numbers }) => numbers![name]!));
    const gain_E = logprobs(pass).select(1, 0).sub(column("before"));
    const loss_E = gain_E.sub(means.rejected!).mul(column("weight")).neg();
    return {
      loss: loss_E.sum().div(numExamples),
      metrics: { "test/gain": { sum: gain_E.detach().sum(), count: tensor(pass.examples.length) } },
    };
  },
  derive: ({ loss }) => ({ "test/double": 2 * loss! }),
};

function trainerOf(maxTokensPerMicrobatch: number, given: Objective = objective, lr = 1e-3) {
  const model = createPreset("nano", 16, 1);
  const trainer = new ExampleTrainer({
    model,
    objective: given,
    trainable: model.trainableParameters(),
    optimizer: buildOptimizer(model.namedParameters(), {
      lr,
      betas: [0.9, 0.999],
      eps: 1e-3,
      weightDecay: 0,
      masterWeights: true,
      moments: "full",
    }),
    schedule: () => 1,
    options: { maxTokensPerMicrobatch, maxGradNorm: 1, recompute: false },
  });
  return { model, trainer };
}

function measured(trainer: ExampleTrainer, model: ReturnType<typeof createPreset>): readonly TuningExample[] {
  const numbers = trainer.measure(pairs, model);
  return pairs.map((example, i) => ({ ...example, numbers: { ...example.numbers, ...numbers[i] } }));
}

test("what is measured beforehand belongs to its example, and the loss is that of the whole batch, however it is cut", async () => {
  const whole = trainerOf(100);
  const examples = measured(whole.trainer, whole.model);
  const { metrics } = await whole.trainer.step(examples);
  // Nothing was gained yet: the loss is the mean over the pairs of weight times the mean log-prob of the rejected sequences.
  const rejected = examples.map(({ numbers }) => numbers!.rejected!);
  const expected = ((1 + 2 + 4) / 3) * (rejected.reduce((sum, value) => sum + value, 0) / 3);
  expect(metrics["train/loss"]).toBeCloseTo(expected, 4);
  expect(metrics["test/gain"]).toBeCloseTo(0, 5);
  expect(metrics["test/double"]).toBeCloseTo(2 * metrics["train/loss"]!, 10);
  expect(metrics).toMatchObject({ "experience/rows": 3, "experience/tokens": 21, "experience/loss_tokens": 9 });

  const cut = trainerOf(8);
  expect((await cut.trainer.step(measured(cut.trainer, cut.model))).metrics["train/loss"]).toBeCloseTo(expected, 4);
  const [one, other] = [whole, cut].map(({ model }) => model.parameters().map((values) => values.detach().reshape(-1)));
  const gap = stack(one!.map((values, i) => values.sub(other![i]!).abs().max()))
    .max()
    .item();
  expect(gap).toBeLessThan(1e-6);
  const after = await whole.trainer.evaluate(examples);
  expect(after["test/gain"]).toBeGreaterThan(0);
  expect(await whole.trainer.evaluate(examples)).toEqual(after);
});

test("an update whose loss is not finite changes nothing but the counters", async () => {
  const broken: Objective = {
    loss: (pass, totals) => {
      const { loss, metrics } = supervised().loss(pass, totals);
      return { loss: loss.mul(Number.NaN), metrics };
    },
  };
  const { model, trainer } = trainerOf(100, broken);
  const before = model.parameters().map((values) => values.detach().sum().item());
  const { metrics, numSkippedInRow } = await trainer.step(pairs);
  expect(model.parameters().map((values) => values.detach().sum().item())).toEqual(before);
  expect([numSkippedInRow, metrics["train/skipped_updates"], metrics["train/loss"]]).toEqual([1, 1, undefined]);
  expect(trainer.state).toEqual({ numUpdates: 1, numSkippedInRow: 1 });
});

test("a batch without loss tokens is refused", async () => {
  const { trainer } = trainerOf(100, supervised());
  await expect(trainer.step([{ sequences: [sequence([1, 2], 2)] }])).rejects.toThrow(/no loss tokens/);
});
