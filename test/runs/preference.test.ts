/** Preference runs and reward models, from their run file to their weights. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { SampleEvent } from "../../src/flow/sample-event.ts";
import { rewardModel } from "../../src/rewards/reward-model/reward-model.ts";
import { findModel } from "../../src/run/find-model.ts";
import { evaluateTuning } from "../../src/tuning/evaluate-tuning.ts";
import { prepareTuning } from "../../src/tuning/prepare-tuning.ts";
import { never, rewardInput } from "../rewards/reward-input.ts";
import { editWeights } from "./edit-weights.ts";
import { trainSmall } from "./small-run.ts";
import { gapBetween, inFolder, type TuningChanges, tune, tuningFile } from "./tuning-run.ts";

/** Asked for any letter, "yes" is better than "no". */
const letters = [..."abcdefghijkl"];
const pairs = letters.map((prompt) => ({ prompt, chosen: "yes", rejected: "no" }));
const held = [..."mnop"].map((prompt) => ({ prompt, chosen: "yes", rejected: "no" }));
const rowsOf = (rows: readonly Record<string, string>[]) => ({ type: "rows" as const, rows: [...rows] });

const dpo: TuningChanges = {
  name: "dpo",
  model: { preset: "nano", lora: { rank: 4, alpha: 8 } },
  objective: { type: "dpo", beta: 0.5 },
  data: rowsOf(pairs),
  validation: { data: rowsOf(held), every: 2, metric: "preference/margin" },
  training: { optimizer: { lr: 1e-2 }, threads: 1 },
  checkpoint: { every: 2, keep: 3 },
  loop: { steps: 4, rowsPerStep: 5 },
};

const scorer: TuningChanges = {
  ...dpo,
  name: "scorer",
  model: { preset: "nano" },
  objective: { type: "reward-model", centering: 0.01 },
  validation: { data: rowsOf(held), metric: "preference/accuracy" },
  training: { optimizer: { lr: 3e-3 }, threads: 1 },
  loop: { steps: 8, rowsPerStep: 12 },
};

test("dpo raises the margin of held-out pairs and keeps the best, and goes on to the bit with the reference it once measured", () =>
  inFolder(async (root) => {
    const whole = await tune(root, { ...dpo, name: "whole" });
    const margins = whole.validation.map((metrics) => metrics["validation/preference/margin"]!);
    expect(margins[0]).toBeCloseTo(0, 5);
    expect(margins.at(-1)).toBeGreaterThan(0.1);
    expect(whole.validation.at(-1)!["validation/preference/accuracy"]).toBe(1);
    expect(whole.result.best?.value).toBe(Math.max(...margins));

    const part = await tune(root, { ...dpo, loop: { steps: 2, rowsPerStep: 5 } });
    const resumed = await tune(root, dpo, part.folder);
    expect(gapBetween(resumed.weights, whole.weights)).toBe(0);
    expect(resumed.train.at(-1)!["train/loss"]).toBe(whole.train.at(-1)!["train/loss"]);

    // What is measured again would not notice that the file has been changed.
    const path = join(part.folder, "measured.json");
    const measured = JSON.parse(readFileSync(path, "utf8")) as { train: { referenceChosen: number }[] };
    for (const numbers of measured.train) numbers.referenceChosen -= 100;
    writeFileSync(path, JSON.stringify(measured));
    const moved = await tune(root, { ...dpo, loop: { steps: 5, rowsPerStep: 5 } }, part.folder);
    const [last, before] = [moved.train.at(-1)!, whole.train.at(-1)!];
    expect(last["preference/chosen_reward"]! - before["preference/chosen_reward"]!).toBeGreaterThan(45);

    const prepared = await prepareTuning(tuningFile(dpo), [], {});
    const metrics = await evaluateTuning(findModel(whole.folder, 4), prepared);
    expect(metrics["validation/preference/margin"]).toBeCloseTo(margins.at(-1)!, 4);

    // A model that has left its run folder does not say what it was trained from, and is not taken for its own reference.
    const start = join(whole.folder, "model");
    await expect(evaluateTuning(findModel(start), prepared)).rejects.toThrow(
      /^reference is missing: objective dpo compares .* with the model that it was trained from, and the run file has no model\.path/,
    );
    const named = await prepareTuning(tuningFile({ ...dpo, reference: start }), [], {});
    expect((await evaluateTuning(findModel(start), named))["validation/preference/margin"]).toBeCloseTo(0, 5);
  }));

test("the weights are the same over however many ranks pairs, labels and heads are spread", () =>
  inFolder(async (root) => {
    const objectives = {
      kto: { type: "kto", beta: 0.5 },
      scorer: { type: "reward-model", useMargins: false },
    } as const;
    for (const [kind, objective] of Object.entries(objectives)) {
      const run = (name: string, ranks: number) =>
        tune(root, {
          name: `${kind}-${name}`,
          objective,
          data: rowsOf(pairs),
          // An epsilon above the rounding of gradients: AdamW divides by their size.
          training: { optimizer: { lr: 1e-3, eps: 1e-3 }, threads: 1, ranks },
          loop: { steps: 2, rowsPerStep: 5 },
        });
      const [one, two] = [await run("one", 1), await run("two", 2)];
      expect(gapBetween(one.weights, two.weights)).toBeLessThan(1e-6);
      for (const name of ["train/loss", "preference/accuracy", "experience/rows"])
        expect(two.train[1]![name]).toBeCloseTo(one.train[1]![name]!, 5);
    }
  }));

/** Counts turns of the event loop while samples are scored: a score that is computed in this thread has hardly any. */
function countTurns() {
  let numTurns = 0;
  const scoring = new Map<string, number>();
  const ofScores: number[] = [];
  const count = () => {
    numTurns++;
    if (scoring.size > 0) setImmediate(count);
  };
  const sampleEvent = ({ sampleId, stage }: SampleEvent) => {
    if (stage === "scoring" && scoring.set(sampleId, numTurns).size === 1) setImmediate(count);
    if (stage !== "complete") return;
    ofScores.push(numTurns - scoring.get(sampleId)!);
    scoring.delete(sampleId);
  };
  return { ofScores, sampleEvent };
}

test("a reward model tells held-out replies apart, is a folder of transformers, and scores the replies of a run while the thread of the run is free", () =>
  inFolder(async (root) => {
    const { folder, result, validation, weights } = await tune(root, scorer);
    expect(validation.at(-1)!["validation/preference/accuracy"]).toBe(1);
    const config = JSON.parse(readFileSync(join(result.modelFolder, "config.json"), "utf8")) as Record<string, unknown>;
    expect(config).toMatchObject({ architectures: ["Qwen3ForSequenceClassification"], num_labels: 1 });

    const reward = await rewardModel.build(rewardModel.options.parse({ path: result.modelFolder }));
    const scoreOf = async (reply: string) => {
      const prompt = { ...rewardInput(reply).prompt, messages: [{ role: "user", content: "m" }] };
      const messages = [...prompt.messages, { role: "assistant", content: reply }];
      return (await reward.score({ ...rewardInput(reply), prompt, messages }, never)).value;
    };
    const lead = (await scoreOf("yes")) - (await scoreOf("no"));
    await reward.close?.();
    expect(lead).toBeGreaterThan(0);

    // Evaluated, it has the scores that it had; trained on, it begins with them.
    const prepared = await prepareTuning(tuningFile(scorer), [], {});
    const metrics = await evaluateTuning(findModel(folder, 8), prepared);
    expect(metrics["validation/preference/margin"]).toBeCloseTo(validation.at(-1)!["validation/preference/margin"]!, 4);
    const onward = {
      ...scorer,
      name: "onward",
      model: { path: result.modelFolder },
      loop: { steps: 1, rowsPerStep: 12 },
    };
    const again = await tune(root, { ...onward, training: { optimizer: { lr: 1e-9 }, threads: 1 } });
    expect(gapBetween(again.weights, weights)).toBeLessThan(1e-6);

    const turns = countTurns();
    const file = {
      data: { type: "rows", rows: letters.slice(0, 2).map((question) => ({ question, answer: "" })) },
      rewards: { default: { type: "reward-model", path: result.modelFolder } },
      algorithm: { type: "grpo" },
      rollout: { groupsPerStep: 2, groupSize: 2, contextLength: 64, sampling: { maxTokens: 4 } },
      loop: { type: "sync", steps: 1 },
      training: { optimizer: { lr: 1e-4 } },
    };
    const { metrics: rollout } = await trainSmall(file, 0, turns.sampleEvent);
    expect(turns.ofScores).toHaveLength(4);
    expect(Math.min(...turns.ofScores)).toBeGreaterThan(20);
    expect(Math.abs(rollout[0]!["reward/mean"]!)).toBeGreaterThan(1e-4);
    expect(rollout[0]!["rollout/failed_share"]).toBe(0);
  }));

test.each<[string, TuningChanges, string]>([
  [
    "equal replies",
    { data: rowsOf([...pairs, { prompt: "x", chosen: "a", rejected: "a" }]) },
    "data row 13 has equal replies in chosen and rejected",
  ],
  ["no prompt", { data: rowsOf([{ chosen: "a", rejected: "b" }]) }, "data row 1 has nothing in prompt"],
  [
    "an empty reply",
    { data: rowsOf([...pairs, { prompt: "x", chosen: "a", rejected: " " }]) },
    "data row 13 has an empty reply in rejected",
  ],
  [
    "a label that is none",
    { objective: { type: "kto" }, data: rowsOf([{ prompt: "x", completion: "y", label: "maybe" }]) },
    'data row 1 must have true or false in label: got "maybe"',
  ],
  [
    "one prompt for kto",
    { objective: { type: "kto" }, data: rowsOf([pairs[0]!]) },
    "kto needs rows with at least two different prompts",
  ],
  [
    "no margin",
    { objective: { type: "reward-model", useMargins: true } },
    "data row 1 has no margin, and objective.useMargins is true",
  ],
  [
    "no score",
    { objective: { type: "reward-model", loss: "regression" }, data: rowsOf([{ prompt: "x", completion: "y" }]) },
    "data row 1 must have a number in score: got nothing",
  ],
  [
    "a reference that nothing reads",
    { objective: { type: "simpo" }, reference: "fixtures/hf-tiny/llama" },
    "objective simpo compares with no reference",
  ],
  [
    "a reference of another vocabulary",
    { reference: "fixtures/hf-tiny/llama" },
    "reference must have the vocabulary of the model",
  ],
  [
    "a wrong field",
    { data: { ...rowsOf(pairs), fields: { choosen: "good" } } },
    "data.fields.choosen is not something that this objective reads. Did you mean chosen?",
  ],
])("a run with %s is refused before anything starts", (_, changes, message) =>
  inFolder(async (root) => {
    await expect(tune(root, { ...dpo, ...changes })).rejects.toThrow(message);
    expect(existsSync(root) && readdirSync(root)).toEqual([]);
  }),
);

test("rows that cannot be read are left out and counted where the run file allows it", async () => {
  const rows = [...pairs, { prompt: "x", chosen: "a", rejected: "a" }];
  const { lines, data } = await prepareTuning(
    tuningFile({ ...dpo, data: { ...rowsOf(rows), skipInvalid: true } }),
    [],
    {},
  );
  expect(data.train.examples).toHaveLength(12);
  expect(lines.join("\n")).toContain("1 row cannot be read and is skipped (data row 13)");
});

test("a run that goes on with another form of its objective measures its reference anew, and one with another metric its best", () =>
  inFolder(async (root) => {
    const start = await tune(root, { ...dpo, loop: { steps: 2, rowsPerStep: 5 } });
    const resumed = await tune(
      root,
      {
        ...dpo,
        objective: { type: "dpo", beta: 0.5, lengthNormalized: true },
        validation: { data: rowsOf(held), every: 1, metric: "loss" },
        loop: { steps: 3, rowsPerStep: 5 },
      },
      start.folder,
    );
    // Sums of log-probs taken for means would leave the policy many nats ahead.
    expect(Math.abs(resumed.train.at(-1)!["preference/chosen_reward"]!)).toBeLessThan(1);
    expect(resumed.result.best).toEqual({ step: 3, value: resumed.validation.at(-1)!["validation/loss"] });
  }));

test("tools of a row stand in the prompt of its replies, for pairs, labels and scores as for supervised learning", async () => {
  const tools = [{ type: "function", function: { name: "look", parameters: {} } }];
  const messages = (reply: string) => [
    { role: "user", content: "hi" },
    { role: "assistant", content: reply },
  ];
  const row = { chosen: messages("yes"), rejected: messages("no"), tools };
  const other = { ...row, chosen: [{ role: "user", content: "ho" }, ...messages("yes").slice(1)] };
  const first = async (objective: TuningChanges["objective"], rows: readonly Record<string, unknown>[]) => {
    const data = { type: "rows", rows } as TuningChanges["data"];
    const file = tuningFile({ objective, data, contextLength: 1024 } as TuningChanges);
    return (await prepareTuning(file, [], {})).data.train.examples[0]!.sequences[0]!.tokenIds;
  };
  const written = await first({ type: "supervised" }, [{ messages: row.chosen, tools }]);
  expect(Buffer.from(written).toString("latin1")).toContain("look");
  const labeled = [row.chosen, other.chosen].map((said) => ({ messages: said, label: true, tools }));
  expect(await first({ type: "dpo" }, [row])).toEqual(written);
  expect(await first({ type: "kto" }, labeled)).toEqual(written);
  const scored = [
    await first({ type: "reward-model" }, [row]),
    await first({ type: "reward-model", loss: "regression" }, [{ messages: row.chosen, score: 1, tools }]),
  ];
  for (const ids of scored) expect(ids.subarray(0, written.length)).toEqual(written);
});

test("a reward model that starts from one with a bias is measured as it is saved, without", () =>
  inFolder(async (root) => {
    const { result, folder } = await tune(root, { ...scorer, loop: { steps: 1, rowsPerStep: 2 } });
    editWeights(result.modelFolder, (weights) => {
      weights.set("score.bias", { shape: [1], bytes: Buffer.from(Float32Array.of(50).buffer) });
    });
    const rated = held.map(({ prompt, chosen }) => ({ prompt, completion: chosen, score: 1 }));
    const data = { type: "rows" as const, rows: rated };
    const objective = { type: "reward-model", loss: "regression" } as const;
    const file = { ...scorer, model: { path: result.modelFolder }, objective, data, validation: { data } };
    const run = await tune(root, { ...file, name: "again", loop: { steps: 1, rowsPerStep: 4 } });
    expect(run.folder).not.toBe(folder);
    const saved = await evaluateTuning(findModel(run.folder), await prepareTuning(tuningFile(file), [], {}));
    expect(saved["validation/loss"]).toBeCloseTo(run.result.best!.value, 4);
    expect(run.result.best!.value).toBeLessThan(50);
  }));
