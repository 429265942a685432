/**
 * What a run file says: the schemas of all parts, joined. Each part declares its own options beside its code.
 *
 * A run file holds what differs from the defaults; `runConfig.parse` fills in the rest.
 */
import { z } from "zod";
import { recipes } from "../algorithms/recipes/table.ts";
import { dataOptions } from "../data/data-options.ts";
import { presetSizes } from "../models/causal-lm/presets.ts";
import type { RunAgent } from "../rollout/agent-episode.ts";
import { optimizerOptions, scheduleOptions, trainingOptions } from "../training/trainer-options.ts";

const typed = z.looseObject({ type: z.string() });

const modelOptions = z.strictObject({
  path: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("Folder of the model to start from, in Hugging Face layout."),
  preset: z
    .enum(Object.keys(presetSizes) as [keyof typeof presetSizes])
    .nullable()
    .default(null)
    .describe(
      "Start from a small model with random weights instead, with a tokenizer made of the words that the environments use.",
    ),
  dtype: z
    .enum(["auto", "float32", "bfloat16"])
    .default("auto")
    .describe("Number format of the weights. auto: bfloat16 on a GPU, float32 on the CPU."),
  lora: z
    .strictObject({
      rank: z.int().positive().default(16).describe("Rank of the adapters: how many directions each can change."),
      alpha: z.number().positive().default(32).describe("The adapters' output is scaled by alpha / rank."),
      targets: z
        .union([z.literal("all-linear"), z.array(z.string())])
        .default("all-linear")
        .describe("Layers that get an adapter, such as q_proj."),
    })
    .nullable()
    .default(null)
    .describe("Train small adapters and keep the model itself frozen."),
});

const samplingOptions = z.strictObject({
  maxTokens: z.int().positive().default(512).describe("Most tokens in one reply."),
  temperature: z
    .number()
    .min(0)
    .default(1)
    .describe("Logits are divided by this before a token is drawn. 0: always the likeliest token."),
  topK: z.int().min(0).default(0).describe("Draw from this many of the likeliest tokens. 0: from all."),
  topP: z
    .number()
    .gt(0)
    .max(1)
    .default(1)
    .describe("Draw from the smallest set of likeliest tokens that has this probability. 1: from all."),
  minP: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("Draw only tokens at least this likely, relative to the likeliest."),
  stopStrings: z.array(z.string().min(1)).default([]).describe("Strings that end a reply."),
});

const rolloutOptions = z.strictObject({
  groupsPerStep: z.int().positive().default(32).describe("Prompts, and so groups, per rollout step."),
  groupSize: z.int().positive().default(8).describe("Trajectories sampled for each prompt."),
  maxInFlight: z.int().positive().default(256).describe("Most trajectories that run at the same time."),
  context: z
    .enum(["conversation", "turn"])
    .default("conversation")
    .describe(
      "What the model sees at each turn: the whole conversation, or only the instructions and the latest observation.",
    ),
  sampling: samplingOptions.prefault({}),
  contextLength: z.int().positive().default(4096).describe("Most tokens of a prompt and its reply together."),
  maxTurns: z.int().positive().default(32).describe("Most replies of the model in one trajectory."),
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
        .describe("Give up when more than this many groups are dropped for each one that is wanted."),
    })
    .prefault({}),
  envThreads: z
    .int()
    .min(0)
    .default(0)
    .describe(
      "Worker threads for each kind of environment, for those with slow steps. 0: built-in ones run beside the scheduler, and those of the run file in two threads.",
    ),
  partial: z
    .boolean()
    .default(false)
    .describe("Keep unfinished trajectories when a step is full, and continue them after the update."),
  limits: z
    .strictObject({
      episodeSeconds: z
        .number()
        .positive()
        .default(1800)
        .describe("Time for a whole trajectory; one that takes longer ends as truncated."),
      generateSeconds: z.number().positive().default(900).describe("Time for one reply."),
      envSeconds: z.number().positive().default(60).describe("Time for one call of an environment."),
      rewardSeconds: z.number().positive().default(120).describe("Time for one reward."),
    })
    .prefault({}),
});

const loopOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("sync"),
    steps: z.int().min(0).default(100).describe("Rollout steps of the run. 0: only the warm start."),
    maxStaleness: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "With rollout.partial: training steps since the weights that drew a token, above which a held trajectory is started again. null: 4.",
      ),
  }),
  z.strictObject({
    type: z.literal("async"),
    steps: z.int().positive().default(100).describe("Rollout steps of the run."),
    syncInterval: z
      .int()
      .positive()
      .default(1)
      .describe("Training steps between two publications of weights to the engine."),
    maxStaleness: z
      .int()
      .min(0)
      .default(1)
      .describe(
        "Most training steps between the weights that drew a token and those that are trained on it; at least syncInterval - 1.",
      ),
  }),
]);

/** The power of one signal in a priority. */
const priorityWeight = z.number().min(0);

const replayOptions = z.strictObject({
  capacity: z.int().positive().default(4096).describe("Most trajectories kept for replay."),
  ratio: z.number().min(0).lt(1).default(0.25).describe("Share of each batch that is replayed."),
  eviction: z
    .enum(["priority", "age"])
    .default("priority")
    .describe("What is forgotten where there are more: the groups of the lowest priority, or the oldest."),
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
      "What makes a group likely to be replayed besides being recent: one signal, or the weights of several, by which their powers are multiplied.",
    ),
  alpha: z.number().min(0).default(0.6).describe("How strongly priorities count. 0: all are equally likely."),
  beta: z
    .tuple([z.number().min(0).max(1), z.number().min(0).max(1)])
    .default([0.4, 1])
    .describe("Strength of the importance correction, at the start and at the end of the run."),
  halfLife: z.number().positive().default(2).describe("Training steps after which a priority is halved."),
  maxAge: z
    .int()
    .positive()
    .default(16)
    .describe("Training steps since the weights that drew it, above which a group is no longer replayed."),
  maxReuse: z.int().positive().default(4).describe("Most times that a trajectory is replayed."),
});

const warmStartOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("play"),
    agent: z.enum(["random", "oracle"]).default("random").describe("Who plays the episodes that the model imitates."),
    steps: z.int().positive().default(60).describe("Number of supervised updates."),
    turnsPerStep: z.int().positive().default(256).describe("Turns of play in each update."),
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
    .describe('Where models run: "cpu", "cuda" or "cuda:0". auto: a GPU where there is one.'),
  model: modelOptions,
  envs: z.record(z.string(), typed).default({}).describe("Environments by domain, each as { type, ...options }."),
  rewards: z
    .record(z.string(), typed)
    .default({})
    .describe("Rewards by domain; the one named default takes all domains without their own."),
  agent: z
    .custom<RunAgent>((value) => typeof value === "function", "must be a function")
    .nullable()
    .default(null)
    .describe("Your own agent, which calls the run's OpenAI-compatible endpoint, in place of environments."),
  data: dataOptions.nullable().default(null).describe("Where prompts come from. null: the environment makes them."),
  rollout: rolloutOptions.prefault({}),
  algorithm: z
    .looseObject({ type: z.enum(Object.keys(recipes) as [keyof typeof recipes]) })
    .prefault({ type: "grpo" })
    .describe("The recipe and its options; see the reference of algorithms."),
  critic: z
    .strictObject({
      path: z
        .string()
        .nullable()
        .default(null)
        .describe("Folder of the model that the critic starts from. null: the model of the run."),
      optimizer: optimizerOptions.prefault({ lr: 1e-5 }),
      warmupUpdates: z.int().min(0).default(0).describe("Updates at the start in which only the critic learns."),
    })
    .prefault({})
    .describe("The critic, for recipes that have one."),
  reference: z
    .string()
    .nullable()
    .default(null)
    .describe("Folder of the frozen reference model for KL. null: the model of the run as it starts."),
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
          "Steps between validations; 0: only at the start and the end. Between two publications they wait for the next one.",
        ),
      prompts: z
        .int()
        .positive()
        .default(128)
        .describe("Number of prompts, the same ones every time, with one trajectory each."),
      data: dataOptions
        .nullable()
        .default(null)
        .describe("Where the prompts come from. null: the validation part of the environment."),
      temperature: z
        .number()
        .min(0)
        .default(0)
        .describe("Sampling temperature in validation. 0: always the likeliest token."),
      metric: z.string().default("reward/mean").describe("Metric that the best checkpoint is chosen by."),
      stopAt: z.number().nullable().default(null).describe("End the run when the metric reaches this value."),
      patience: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe("End the run after this many validations without a better one."),
    })
    .nullable()
    .default(null)
    .describe("Measure the policy on prompts that are never trained on."),
  checkpoint: z
    .strictObject({
      every: z.int().min(0).default(0).describe("Steps between checkpoints. 0: only one at the end."),
      keep: z
        .int()
        .positive()
        .default(2)
        .describe("Number of latest checkpoints to keep; the best one is always kept."),
    })
    .prefault({}),
  engine: z
    .strictObject({
      threads: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe(
          "CPU threads of one operator in the engine. null: every core, or half of them in an asynchronous loop.",
        ),
      maxRunning: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe("Most sequences in one decode step. null: rollout.maxInFlight, and 256 at most."),
      maxStepTokens: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe("Most tokens that one step of the engine computes. null: the default of the engine."),
      remote: z
        .strictObject({
          url: z.string().describe("Address of the server."),
          kind: z.enum(["reroll", "vllm", "sglang", "llama-cpp"]).describe("Kind of server."),
          apiKey: z
            .string()
            .nullable()
            .default(null)
            .describe("API key, sent as a bearer token and never written to the run folder."),
        })
        .nullable()
        .default(null)
        .describe("Sample with a server instead of the run's own engine."),
    })
    .prefault({}),
  tracking: z
    .strictObject({
      folder: z
        .string()
        .default("runs")
        .describe("Folder that run folders are made in. Default: $REROLL_HOME/runs where that is set."),
      trajectoriesEvery: z
        .int()
        .min(0)
        .default(1)
        .describe("Steps between records of trajectories. 0: none are recorded."),
      maxGroups: z.int().positive().default(8).describe("Most groups recorded of a step."),
      tensorboard: z.boolean().default(true).describe("Also write TensorBoard event files."),
      wandb: z
        .strictObject({
          project: z.string().describe("Project that the run is listed under."),
          url: z.string().default("https://api.wandb.ai").describe("Address of the server."),
        })
        .nullable()
        .default(null)
        .describe("Send metrics to Weights & Biases; the key is read from WANDB_API_KEY."),
      mlflow: z
        .strictObject({
          url: z.string().describe("Address of the server."),
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

/** What a run file may hold. */
export type RunInput = z.input<typeof runConfig>;
