/**
 * Checks in about a second, on a model of a hundred thousand weights, that this machine computes what it should.
 *
 * Two facts that training rests on: the engine's log-probs are those of the trainer, and the loss of a batch does not depend on how
 * it is cut into microbatches.
 */
import { buildRecipe } from "../algorithms/recipes/table.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { Generation } from "../generation/generate.ts";
import { LocalEngine } from "../generation/local/local-engine.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { createPreset } from "../models/causal-lm/presets.ts";
import { AdamW } from "../torch/optim/adamw.ts";
import { constantRate } from "../torch/optim/schedule.ts";
import { TokenTrainer } from "../training/token-trainer.ts";

/** What the self-test measured. */
export interface SelfTest {
  /** The largest difference between engine and trainer in the log-prob of a token, in nats. */
  readonly samplerGap: number;
  /** How far loss and gradient norm of one batch move when it is cut as small as it can be, relative to themselves. */
  readonly cutDifference: number;
}

const PROMPT = [3, 1, 4, 1, 5, 9];
const VOCABULARY = 32;

/** Runs both on a device, in float32. */
export async function runSelfTest(device: string): Promise<SelfTest> {
  const samples = await sampleReplies(device);
  const whole = await trainOnce(samples, device, 4096);
  const longest = Math.max(...samples.map(({ tokenIds }) => tokenIds.length));
  const cut = await trainOnce(samples, device, longest);
  const moved = (name: string) => Math.abs(whole[name]! - cut[name]!) / Math.max(Math.abs(whole[name]!), 1e-3);
  return {
    samplerGap: whole["train/sampler_gap_max"]!,
    cutDifference: Math.max(moved("train/loss"), moved("train/grad_norm")),
  };
}

/** Two groups of three, of different lengths, so that microbatches differ in what they hold. */
async function sampleReplies(device: string): Promise<TokenSample[]> {
  const model = tinyModel(device);
  const engine = new LocalEngine(model, { contextLength: 64 });
  try {
    const replies = await Promise.all(
      [4, 9, 13, 6, 11, 5].map((maxTokens, seed) =>
        engine.generate({ promptIds: PROMPT, sampling: { maxTokens, seed, temperature: 1 } }),
      ),
    );
    return replies.map(sampleOf);
  } finally {
    await engine.close();
    model.dispose();
  }
}

function sampleOf({ tokenIds, samplerLogprobs, versions }: Generation, i: number): TokenSample {
  const length = PROMPT.length + tokenIds.length;
  const lossMask = new Uint8Array(length).fill(1, PROMPT.length);
  const logprobs = new Float32Array(length);
  logprobs.set(samplerLogprobs, PROMPT.length);
  const tokenVersions = new Int32Array(length);
  tokenVersions.set(versions, PROMPT.length);
  const rewards = new Float32Array(length);
  rewards[length - 1] = i % 3;
  return {
    tokenIds: Int32Array.from([...PROMPT, ...tokenIds]),
    lossMask,
    samplerLogprobs: logprobs,
    versions: tokenVersions,
    rewards,
    group: Math.floor(i / 3),
    trajectory: i,
    turn: 0,
    stateKey: "",
    isTruncated: false,
  };
}

async function trainOnce(samples: readonly TokenSample[], device: string, maxTokensPerMicrobatch: number) {
  const model = tinyModel(device);
  const optimizer = new AdamW(model.namedParameters(), { lr: 1e-3 });
  const trainer = new TokenTrainer({
    model,
    optimizer,
    // The entropy makes the loss itself differ from zero: advantages of a group sum to nothing.
    recipe: buildRecipe({ type: "grpo", entropy: { type: "fixed", coefficient: 0.1 } }),
    schedule: constantRate(),
    reference: null,
    critic: null,
    options: {
      temperature: 1,
      maxTokensPerMicrobatch,
      minibatchTrajectories: 0,
      maxGradNorm: 1,
      recompute: false,
      seed: 1,
    },
  });
  try {
    const { metrics } = await trainer.step({ samples, version: 0 });
    return metrics;
  } finally {
    optimizer.dispose();
    model.dispose();
  }
}

function tinyModel(device: string): CausalLm {
  return createPreset("nano", VOCABULARY, 1, { device });
}
