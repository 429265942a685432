/** What a critic makes of samples: their TD errors, and how much they count for it. */
import { expect, test } from "vitest";
import { buildRecipe } from "../algorithms/recipes/table.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import { ValueHead } from "../models/causal-lm/value-head.ts";
import { tinyConfig, tinyModel } from "../testing/tiny-model.ts";
import { constantRate } from "../torch/optim/schedule.ts";
import { SGD } from "../torch/optim/sgd.ts";
import { TokenTrainer } from "./token-trainer.ts";

/** Two reply tokens, of which the last earns the reward. */
function sampleOf(trajectory: number, reward: number, weight?: number): TokenSample {
  return {
    tokenIds: Int32Array.of(3, 5, 7, 8),
    lossMask: Uint8Array.of(0, 0, 1, 1),
    samplerLogprobs: Float32Array.of(0, 0, -3, -3),
    versions: Int32Array.of(-1, -1, 0, 0),
    rewards: Float32Array.of(0, 0, 0, reward),
    ...{ group: trajectory, trajectory, turn: 0, stateKey: "s", isTruncated: false },
    ...(weight !== undefined && { weight }),
  };
}

/** A critic whose head is 0, so that every value is 0 before the first step. Only its bias is looked at. */
function createTrainer() {
  const [model, criticModel] = [tinyModel(tinyConfig("qwen3")), tinyModel(tinyConfig("qwen3"))];
  const head = new ValueHead(criticModel.config.width);
  const trainer = new TokenTrainer({
    model,
    recipe: buildRecipe({ type: "ppo", lambda: 1, valueClip: null }),
    optimizer: new SGD(model.namedParameters(), { lr: 0.1 }),
    schedule: constantRate(),
    reference: null,
    critic: { model: criticModel, head, optimizer: new SGD(head.namedParameters(), { lr: 0.1 }), warmupUpdates: 0 },
    options: {
      ...{ temperature: 1, maxTokensPerMicrobatch: 64, minibatchTrajectories: 0, maxGradNorm: 1e9 },
      ...{ recompute: false, seed: 1 },
    },
  });
  const bias = () => head.bias.detach().toArray()[0]!;
  const dispose = () => {
    for (const part of [model, criticModel, head]) part.dispose();
  };
  return { trainer, bias, dispose };
}

test("the TD error of a sample is the mean distance of return and value, and shrinks as the critic learns", async () => {
  const { trainer, dispose } = createTrainer();
  const batch = { samples: [sampleOf(0, 2), sampleOf(1, -0.5), sampleOf(2, 2)], version: 0 };
  const first = await trainer.step(batch);
  // Undiscounted and with lambda 1, so the return of both tokens is the reward; the values are 0.
  expect([...first.tdErrors!]).toEqual([2, 0.5, 2]);
  const { tdErrors } = await trainer.step(batch);
  expect(tdErrors![0]).toBeLessThan(2);
  dispose();
});

test("the critic learns from a sample by its weight", async () => {
  const biasAfter = async (weight: number) => {
    const { trainer, bias, dispose } = createTrainer();
    await trainer.step({ samples: [sampleOf(0, 0), sampleOf(1, 2, weight)], version: 0 });
    const value = bias();
    dispose();
    return value;
  };
  const full = await biasAfter(1);
  expect(full).toBeGreaterThan(0.01);
  expect(await biasAfter(0.25)).toBeCloseTo(full / 4, 6);
  expect(await biasAfter(0)).toBe(0);
});
