/**
 * What a run file says: the schemas of all parts, joined. Each part declares its own options beside its code.
 *
 * A run file holds what differs from the defaults; `runConfig.parse` fills in the rest.
 */
import { z } from "zod";
import { recipes } from "../algorithms/recipes/table.ts";
import { dataOptions } from "../data/data-options.ts";
import { address } from "../errors/secret.ts";
import { presetSizes } from "../models/causal-lm/presets.ts";
import type { RunAgent } from "../rollout/agent-call.ts";
import { reflectionOptions } from "../rollout/reflection.ts";
import { optimizerOptions, scheduleOptions, trainingOptions } from "../training/trainer-options.ts";
import { distillationOptions } from "./distillation-options.ts";
import { placementOptions } from "./placement-options.ts";
import { playerOptions } from "./player-options.ts";
import { remoteOptions } from "./remote-options.ts";
import { validationGoal } from "./validation-goal.ts";

const typed = z.looseObject({ type: z.string() });

const modelOptions = z.strictObject({
  path: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe(
      "Model to start from: a folder in Hugging Face layout, a .gguf file, or a name on the Hub, as in Qwen/Qwen2.5-0.5B-Instruct.",
    ),
  preset: z
    .enum(Object.keys(presetSizes) as [keyof typeof presetSizes])
    .nullable()
    .default(null)
    .describe(
      "Start from a small, randomly initialized model instead. Its tokenizer is built from the words that the environments use.",
    ),
  dtype: z
    .enum(["auto", "float32", "bfloat16"])
    .default("auto")
    .describe("Number format of the weights. auto: bfloat16 on a GPU, float32 on the CPU."),
  lora: z
    .strictObject({
      rank: z
        .int()
        .positive()
        .default(16)
        .describe("Rank of the adapters: the number of directions in which each can change its layer."),
      alpha: z.number().positive().default(32).describe("The adapters' output is scaled by alpha / rank."),
      targets: z
        .union([z.literal("all-linear"), z.array(z.string())])
        .default("all-linear")
        .describe("Layers that get an adapter, such as q_proj."),
    })
    .nullable()
    .default(null)
    .describe("Train LoRA adapters and keep the model itself frozen."),
  quantization: z
    .enum(["int8", "int4", "nf4"])
    .nullable()
    .default(null)
    .describe(
      "Hold the frozen linear layers in 8 or 4 bits, in the trainer and in the engine, under LoRA adapters. nf4 loses least of 4 bits.",
    ),
});

/** Scores are divided by it: what is nearly 0 or nearly infinite would leave no numbers. */
const temperature = z
  .number()
  .min(0)
  .max(1e4)
  .refine((value) => value === 0 || value >= 1e-4, { message: "It must be 0, or from 0.0001 to 10000" });

const samplingOptions = z.strictObject({
  maxTokens: z.int().positive().default(512).describe("Maximum number of tokens in one reply."),
  temperature: temperature
    .default(1)
    .describe("Logits are divided by this before a token is drawn. 0: always the likeliest token."),
  topK: z
    .int()
    .min(0)
    .max(2 ** 31 - 1)
    .default(0)
    .describe("Draw from only this many of the likeliest tokens. 0: from all of them."),
  topP: z
    .number()
    .min(1e-9)
    .max(1)
    .default(1)
    .describe(
      "Draw from the smallest set of likeliest tokens whose probabilities add up to this. 1: from all of them.",
    ),
  minP: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("Draw only tokens whose probability is at least this fraction of the likeliest token's."),
  stopStrings: z.array(z.string().min(1)).default([]).describe("Strings that end a reply."),
});

const rolloutOptions = z.strictObject({
  groupsPerStep: z.int().positive().default(32).describe("Prompts, and so groups, per rollout step."),
  groupSize: z.int().positive().default(8).describe("Trajectories sampled for each prompt."),
  maxInFlight: z.int().positive().default(256).describe("Maximum number of trajectories that run at the same time."),
  context: z
    .enum(["conversation", "turn"])
    .default("conversation")
    .describe(
      "Context that the model sees at each turn: the whole conversation, or only the instructions and the latest observation.",
    ),
  sampling: samplingOptions.prefault({}),
  contextLength: z
    .int()
    .positive()
    .default(4096)
    .describe("Maximum number of tokens in a prompt and its reply together."),
  maxTurns: z.int().positive().default(32).describe("Maximum number of replies in one trajectory."),
  extraSamples: z
    .int()
    .min(0)
    .default(0)
    .describe("Samples started beyond groupSize; the first groupSize to finish are taken."),
  extraGroups: z
    .int()
    .min(0)
    .default(0)
    .describe("Groups started beyond groupsPerStep; the first groupsPerStep to finish are taken."),
  filter: z
    .strictObject({
      dropEqualRewards: z
        .boolean()
        .default(false)
        .describe("Drop groups whose rewards are all equal, and sample others in their place."),
      meanReward: z
        .tuple([z.number(), z.number()])
        .nullable()
        .default(null)
        .describe("Keep only groups whose mean reward lies between these two."),
      maxFactor: z
        .number()
        .positive()
        .default(10)
        .describe("Give up after dropping more than this many groups for every group needed."),
    })
    .prefault({}),
  envThreads: z
    .int()
    .min(0)
    .default(0)
    .describe(
      "Worker threads per kind of environment, for environments with slow steps. 0: built-in ones run on the main thread, and those of the run file in two threads.",
    ),
  partial: z
    .boolean()
    .default(false)
    .describe("Keep unfinished trajectories when a step is full, and continue them after the update."),
  reprefill: z
    .boolean()
    .default(false)
    .describe(
      "Recompute the keys and values of running sequences after every weight change, so that no token is drawn on those of older weights.",
    ),
  limits: z
    .strictObject({
      episodeSeconds: z
        .number()
        .positive()
        .default(1800)
        .describe("Time limit for a whole trajectory. One that takes longer is truncated."),
      generateSeconds: z.number().positive().default(900).describe("Time limit for one reply."),
      envSeconds: z.number().positive().default(60).describe("Time limit for one call to an environment."),
      rewardSeconds: z.number().positive().default(120).describe("Time limit for one reward."),
    })
    .prefault({}),
});

const loopOptions = z.discriminatedUnion("type", [
  z.strictObject({
    // What a run file says of the loop need not name the usual one.
    type: z.literal("sync").optional().default("sync"),
    steps: z.int().min(0).default(100).describe("Number of rollout steps in the run. 0: only the warm start."),
    maxStaleness: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "With rollout.partial: maximum staleness of a held trajectory, in training steps. One that exceeds it is started again. null: 4.",
      ),
  }),
  z.strictObject({
    type: z.literal("async"),
    steps: z.int().positive().default(100).describe("Number of rollout steps in the run."),
    syncInterval: z
      .int()
      .positive()
      .default(1)
      .describe("Training steps between publications of weights to the engine."),
    maxStaleness: z
      .int()
      .min(0)
      .default(1)
      .describe(
        "Maximum staleness of a token when it is trained on, in training steps. It must be at least syncInterval - 1.",
      ),
  }),
]);

/** The weight of one signal in a priority: the power it is raised to. */
const priorityWeight = z.number().min(0);

const replayOptions = z.strictObject({
  capacity: z.int().positive().default(4096).describe("Maximum number of trajectories kept for replay."),
  ratio: z.number().min(0).lt(1).default(0.25).describe("Share of each batch that is replayed."),
  eviction: z
    .enum(["priority", "age"])
    .default("priority")
    .describe("Which groups to evict when the buffer is full: those of the lowest priority, or the oldest."),
  priority: z
    .union([
      z.enum(["uniform", "advantage", "reward", "rarity", "td-error"]),
      z.strictObject({
        recency: priorityWeight.default(1),
        advantage: priorityWeight.default(0),
        reward: priorityWeight.default(0),
        rarity: priorityWeight.default(0),
        "td-error": priorityWeight.default(0),
      }),
    ])
    .default("advantage")
    .describe(
      "Signal that makes a group likely to be replayed, besides being recent; or weights of several, each the power to which its signal enters their product.",
    ),
  alpha: z.number().min(0).default(0.6).describe("How strongly priorities count. 0: all groups are equally likely."),
  beta: z
    .tuple([z.number().min(0).max(1), z.number().min(0).max(1)])
    .default([0.4, 1])
    .describe("Strength of the importance correction, at the start and at the end of the run."),
  halfLife: z.number().positive().default(2).describe("Training steps after which a priority is halved."),
  maxAge: z
    .int()
    .positive()
    .default(16)
    .describe("Maximum staleness of a group's oldest token, in training steps. Older groups are no longer replayed."),
  maxReuse: z.int().positive().default(4).describe("Maximum number of times that a trajectory is replayed."),
});

const warmStartOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("play"),
    agent: z.enum(["random", "oracle"]).default("random").describe("Who plays the episodes that the model imitates."),
    steps: z.int().positive().default(60).describe("Number of supervised updates."),
    turnsPerStep: z.int().positive().default(256).describe("Number of turns in each update."),
    optimizer: optimizerOptions.prefault({ lr: 3e-3 }),
    schedule: scheduleOptions.prefault({}),
  }),
  z.strictObject({
    type: z.literal("data"),
    data: dataOptions.describe("Prompts whose truth is the reply to imitate."),
    steps: z.int().positive().default(100).describe("Number of supervised updates."),
    rowsPerStep: z.int().positive().default(64).describe("Rows of data in each update."),
    optimizer: optimizerOptions.prefault({ lr: 1e-5 }),
    schedule: scheduleOptions.prefault({}),
  }),
]);

/** The whole run file. */
export const runConfig = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]+$/, "use letters, digits, dots, dashes and underscores")
    .default("run")
    .describe("Name of the run and its folder."),
  seed: z.int().min(0).default(1).describe("Seed of everything random in the run."),
  device: z
    .string()
    .default("auto")
    .describe('Device that models run on: "cpu", "cuda" or "cuda:0". auto: a GPU if there is one.'),
  exact: z
    .boolean()
    .default(false)
    .describe(
      "On a GPU, compute in an order that does not depend on what else is in a batch: the engine's log-probabilities equal the trainer's to the bit, and a synchronous run draws the same tokens every time. Costs speed.",
    ),
  model: modelOptions.describe(
    'The model that is trained, as in { preset: "nano" } for a first run or { path: "Qwen/Qwen2.5-0.5B-Instruct" }.',
  ),
  envs: z.record(z.string(), typed).default({}).describe("Environments by domain, each as { type, ...options }."),
  rewards: z
    .record(z.string(), typed)
    .default({})
    .describe("Rewards by domain. The one named default scores every domain that has none of its own."),
  agent: z
    .custom<RunAgent>((value) => typeof value === "function", "must be a function")
    .nullable()
    .default(null)
    .describe("Your own agent, used in place of environments. It calls the run's OpenAI-compatible endpoint."),
  players: playerOptions,
  data: dataOptions.nullable().default(null).describe("Source of the prompts. null: the environment makes them."),
  rollout: rolloutOptions.prefault({}),
  algorithm: z
    .looseObject({ type: z.enum(Object.keys(recipes) as [keyof typeof recipes]) })
    .prefault({ type: "grpo" })
    .describe("The recipe and its options, which the reference of algorithms lists."),
  critic: z
    .strictObject({
      path: z
        .string()
        .nullable()
        .default(null)
        .describe(
          "Folder of the model that the critic starts from: a language model, or a reward model with the policy's vocabulary, whose head the values then start from. null: the model that the run starts from.",
        ),
      optimizer: optimizerOptions.prefault({ lr: 1e-5 }),
      warmupUpdates: z.int().min(0).default(0).describe("Updates at the start in which only the critic learns."),
    })
    .prefault({})
    .describe("The critic, for recipes that have one."),
  reference: z
    .string()
    .nullable()
    .default(null)
    .describe("Folder of the frozen reference model for KL. null: the model that the run starts from."),
  distillation: distillationOptions
    .nullable()
    .default(null)
    .describe("Learn from teachers, who measure what the model samples, beside rewards or in their place."),
  reflection: reflectionOptions
    .nullable()
    .default(null)
    .describe("Try failed episodes again with a reflection in context, and learn what succeeds without it."),
  training: trainingOptions,
  replay: replayOptions.nullable().default(null).describe("Train on past trajectories as well."),
  loop: loopOptions
    .prefault({ type: "sync" })
    .describe("Whether rollout and training take turns (sync) or run at the same time (async)."),
  warmStart: warmStartOptions.nullable().default(null).describe("Supervised updates before reinforcement learning."),
  validation: z
    .strictObject({
      every: z
        .int()
        .min(0)
        .default(0)
        .describe(
          "Rollout steps between validations. 0: only at the start and at the end. One that falls between two publications of weights waits for the next.",
        ),
      prompts: z
        .int()
        .positive()
        .default(128)
        .describe("Number of prompts, the same ones every time, with one trajectory each."),
      data: dataOptions
        .nullable()
        .default(null)
        .describe("Source of the prompts. null: the validation part of the environment."),
      temperature: temperature
        .default(0)
        .describe("Sampling temperature in validation. 0: always the likeliest token."),
      metric: z.string().default("reward/mean").describe("Metric by which the best checkpoint is chosen."),
      ...validationGoal,
    })
    .nullable()
    .default(null)
    .describe("Measure the policy on prompts that are never trained on."),
  checkpoint: z
    .strictObject({
      every: z.int().min(0).default(0).describe("Steps between checkpoints. 0: by time only, and at the end."),
      minutes: z
        .number()
        .positive()
        .nullable()
        .default(10)
        .describe("Minutes of the run after which the next step ends with a checkpoint. null: by steps only."),
      keep: z
        .int()
        .positive()
        .default(2)
        .describe("Number of latest checkpoints to keep; the best one is always kept."),
    })
    .prefault({}),
  placement: placementOptions.prefault({}),
  engine: z
    .strictObject({
      threads: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe(
          "CPU threads per operator in each engine. null: every core, or half of them in an asynchronous loop, shared by all engines.",
        ),
      maxRunning: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe("Maximum number of sequences in one decode step. null: rollout.maxInFlight, but at most 256."),
      maxStepTokens: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe("Maximum number of tokens that one step of the engine computes. null: the engine's own default."),
      quantization: z
        .enum(["fp8"])
        .nullable()
        .default(null)
        .describe(
          "Hold the engine's linear layers in 8-bit floats, made anew of every version of the weights. Its log-probs then differ from the trainer's, so the run needs a correction. null: as the trainer has them.",
        ),
      cacheQuantization: z
        .enum(["fp8"])
        .nullable()
        .default(null)
        .describe(
          "Hold the engine's keys and values in 8-bit floats, in half of the memory on a GPU. The run needs a correction then, too. null: in the type of the model.",
        ),
      remote: remoteOptions
        .nullable()
        .default(null)
        .describe("Sample with servers instead of engines of the run itself."),
    })
    .prefault({}),
  tracking: z
    .strictObject({
      folder: z
        .string()
        .default("runs")
        .describe("Folder that holds the run folders. Default: $REROLL_HOME/runs if that variable is set."),
      trajectoriesEvery: z
        .int()
        .min(0)
        .default(1)
        .describe("Rollout steps between recordings of trajectories. 0: none are recorded."),
      maxGroups: z
        .int()
        .positive()
        .default(8)
        .describe(
          "Maximum number of groups recorded per step: of the delivered, the filtered and the failed ones each.",
        ),
      tensorboard: z.boolean().default(true).describe("Also write TensorBoard event files."),
      wandb: z
        .strictObject({
          project: z.string().describe("Project that the run is listed under."),
          url: address().prefault("https://api.wandb.ai").describe("Address of the server."),
        })
        .nullable()
        .default(null)
        .describe("Send metrics to Weights & Biases; the key is read from WANDB_API_KEY."),
      mlflow: z
        .strictObject({
          url: address().describe("Address of the server."),
          experiment: z.string().default("reroll").describe("Experiment that the run is listed under."),
        })
        .nullable()
        .default(null)
        .describe("Send metrics to MLflow."),
      tags: z.array(z.string()).default([]).describe("Labels to find the run by."),
    })
    .prefault({}),
});

/** A run with every key settled. */
export type RunConfig = z.output<typeof runConfig>;

type RemoteOptions = NonNullable<RunConfig["engine"]["remote"]>;

/** One of the servers that a run samples with. */
export interface RemoteServer extends Omit<RemoteOptions, "url"> {
  readonly url: Exclude<RemoteOptions["url"], unknown[]>;
}

/** The servers that a run samples with; none where it has engines of its own. */
export function remoteServers({ engine: { remote } }: RunConfig): readonly RemoteServer[] {
  if (remote === null) return [];
  const { url, ...others } = remote;
  return (Array.isArray(url) ? url : [url]).map((one) => ({ ...others, url: one }));
}

/** What a run file may hold. */
export type RunInput = z.input<typeof runConfig>;
