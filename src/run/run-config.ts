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
  path: z.string().min(1).nullable().default(null).describe("A Hugging Face folder to start from."),
  preset: z
    .enum(Object.keys(presetSizes) as [keyof typeof presetSizes])
    .nullable()
    .default(null)
    .describe("A small model with random weights instead, and a tokenizer of the words that the environments use."),
  dtype: z
    .enum(["auto", "float32", "bfloat16"])
    .default("auto")
    .describe("auto: bfloat16 on a GPU, float32 on the CPU."),
  lora: z
    .strictObject({
      rank: z.int().positive().default(16).describe("Width of the adapters."),
      alpha: z.number().positive().default(32).describe("Their change is scaled by alpha / rank."),
      targets: z
        .union([z.literal("all-linear"), z.array(z.string())])
        .default("all-linear")
        .describe("The layers to adapt, such as q_proj."),
    })
    .nullable()
    .default(null)
    .describe("Train small adapters on a frozen model."),
});

const samplingOptions = z.strictObject({
  maxTokens: z.int().positive().default(512).describe("Tokens per reply."),
  temperature: z.number().min(0).default(1).describe("Scores are divided by this before a token is drawn."),
  topK: z.int().min(0).default(0).describe("0: all tokens."),
  topP: z
    .number()
    .gt(0)
    .max(1)
    .default(1)
    .describe("The smallest set of likeliest tokens with this probability. 1: all."),
  minP: z.number().min(0).max(1).default(0).describe("Only tokens at least this likely relative to the likeliest."),
  stopStrings: z.array(z.string().min(1)).default([]).describe("Texts that end a reply."),
});

const rolloutOptions = z.strictObject({
  groupsPerStep: z.int().positive().default(32).describe("Prompts per training step."),
  groupSize: z.int().positive().default(8).describe("Trajectories per prompt."),
  maxInFlight: z.int().positive().default(256).describe("Trajectories that run at once."),
  context: z
    .enum(["conversation", "turn"])
    .default("conversation")
    .describe("Whether the model sees the whole conversation, or the instructions and the latest observation."),
  sampling: samplingOptions.prefault({}),
  contextLength: z.int().positive().default(4096).describe("Tokens of prompt and reply together."),
  maxTurns: z.int().positive().default(32).describe("Replies per trajectory."),
  extraSamples: z.int().min(0).default(0).describe("Samples started beyond groupSize; the first to end are taken."),
  extraGroups: z.int().min(0).default(0).describe("Groups started beyond groupsPerStep; the first to end are taken."),
  filter: z
    .strictObject({
      dropEqualRewards: z.boolean().default(false).describe("Drop and refill groups whose rewards do not differ."),
      meanReward: z
        .tuple([z.number(), z.number()])
        .nullable()
        .default(null)
        .describe("Keep groups whose mean reward lies between these."),
      maxFactor: z.number().positive().default(10).describe("Dropped groups per wanted one before the run gives up."),
    })
    .prefault({}),
  envThreads: z
    .int()
    .min(0)
    .default(0)
    .describe("Worker threads per environment, for those whose steps take long. 0: they run beside the scheduler."),
  partial: z.boolean().default(false).describe("Hold unfinished trajectories and continue them after the update."),
  limits: z
    .strictObject({
      episodeSeconds: z
        .number()
        .positive()
        .default(1800)
        .describe("For a whole trajectory; what takes longer ends as truncated."),
      generateSeconds: z.number().positive().default(900).describe("For one reply."),
      envSeconds: z.number().positive().default(60).describe("For one call of an environment."),
      rewardSeconds: z.number().positive().default(120).describe("For one reward."),
    })
    .prefault({}),
});

const loopOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("sync"),
    steps: z.int().min(0).default(100).describe("Rollout steps; 0 for a warm start alone."),
    maxStaleness: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "With rollout.partial: training steps since the weights that drew a token, above which a held trajectory is started again. Default 4.",
      ),
  }),
  z.strictObject({
    type: z.literal("async"),
    steps: z.int().positive().default(100).describe("Rollout steps."),
    syncInterval: z.int().positive().default(1).describe("Training steps between two publications of weights."),
    maxStaleness: z
      .int()
      .min(0)
      .default(1)
      .describe(
        "Training steps that may lie between the weights that drew a token and those that are trained on it; at least syncInterval - 1.",
      ),
  }),
]);

/** The power of one signal in a priority. */
const priorityWeight = z.number().min(0);

const replayOptions = z.strictObject({
  capacity: z.int().positive().default(4096).describe("Trajectories kept."),
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
      "What makes a group likely to be replayed, beside being recent: one signal, or the weights of several, by which their powers are multiplied.",
    ),
  alpha: z.number().min(0).default(0.6).describe("How strongly priorities count."),
  beta: z
    .tuple([z.number().min(0).max(1), z.number().min(0).max(1)])
    .default([0.4, 1])
    .describe("Importance correction at the start and the end."),
  halfLife: z.number().positive().default(2).describe("Training steps after which a priority is halved."),
  maxAge: z
    .int()
    .positive()
    .default(16)
    .describe("Training steps since the weights that drew it, above which nothing is replayed."),
  maxReuse: z.int().positive().default(4).describe("Times that a trajectory may be replayed."),
});

const warmStartOptions = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("play"),
    agent: z.enum(["random", "oracle"]).default("random").describe("Who plays the episodes that are learned from."),
    steps: z.int().positive().default(60).describe("Supervised updates."),
    turnsPerStep: z.int().positive().default(256).describe("Played turns in one of them."),
    optimizer: optimizerOptions.prefault({ lr: 3e-3 }),
    schedule: scheduleOptions.prefault({}),
  }),
  z.strictObject({
    type: z.literal("data"),
    data: dataOptions.describe("Prompts whose truth is the reply to learn."),
    steps: z.int().positive().default(100).describe("Supervised updates."),
    rowsPerStep: z.int().positive().default(64).describe("Rows in one of them."),
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
    .describe("What the run and its folder are called."),
  seed: z.int().min(0).default(1).describe("All chance of the run comes from it."),
  device: z.string().default("auto").describe('"cpu", "cuda" or "cuda:0"; auto: a GPU where there is one.'),
  model: modelOptions,
  envs: z.record(z.string(), typed).default({}).describe("Environments by domain: { type, ...options }."),
  rewards: z.record(z.string(), typed).default({}).describe("Rewards by domain; default takes all others."),
  agent: z
    .custom<RunAgent>((value) => typeof value === "function", "must be a function")
    .nullable()
    .default(null)
    .describe("An agent of one's own that talks to the run's OpenAI-compatible endpoint, in place of environments."),
  data: dataOptions
    .nullable()
    .default(null)
    .describe("Where prompts come from. Default: the one environment makes them."),
  rollout: rolloutOptions.prefault({}),
  algorithm: z
    .looseObject({ type: z.enum(Object.keys(recipes) as [keyof typeof recipes]) })
    .prefault({ type: "grpo" })
    .describe("A recipe and its options: see the reference of algorithms."),
  critic: z
    .strictObject({
      path: z.string().nullable().default(null).describe("Where it starts from. Default: the model itself."),
      optimizer: optimizerOptions.prefault({ lr: 1e-5 }),
      warmupUpdates: z.int().min(0).default(0).describe("Updates in which only the critic learns."),
    })
    .prefault({})
    .describe("For recipes with a critic."),
  reference: z.string().nullable().default(null).describe("For KL: a folder. Default: the model at the start."),
  training: trainingOptions,
  replay: replayOptions.nullable().default(null).describe("Train on past trajectories too."),
  loop: loopOptions.prefault({ type: "sync" }).describe("Rollout and training in turns, or at the same time."),
  warmStart: warmStartOptions.nullable().default(null).describe("Supervised steps before reinforcement learning."),
  validation: z
    .strictObject({
      every: z
        .int()
        .min(0)
        .default(0)
        .describe(
          "Steps between validations; 0: only at the start and the end. Between two publications they wait for the next one.",
        ),
      prompts: z.int().positive().default(128).describe("The same ones every time, one trajectory each."),
      data: dataOptions.nullable().default(null).describe("Default: the validation part of the environment."),
      temperature: z.number().min(0).default(0).describe("0 takes the likeliest token."),
      metric: z.string().default("reward/mean").describe("What the best checkpoint is chosen by."),
      stopAt: z.number().nullable().default(null).describe("End the run when the metric reaches this."),
      patience: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe("End after this many validations without a better one."),
    })
    .nullable()
    .default(null)
    .describe("Prompts that are never trained on."),
  checkpoint: z
    .strictObject({
      every: z.int().min(0).default(0).describe("Steps between checkpoints; 0: only at the end."),
      keep: z.int().positive().default(2).describe("The latest ones that are kept; the best is always."),
    })
    .prefault({}),
  engine: z
    .strictObject({
      threads: z.int().positive().nullable().default(null).describe("Threads of one operator in the engine."),
      maxRunning: z.int().positive().nullable().default(null).describe("Sequences in one decode step."),
      maxStepTokens: z
        .int()
        .positive()
        .nullable()
        .default(null)
        .describe("Tokens that one step of the engine computes."),
      remote: z
        .strictObject({
          url: z.string().describe("Its address."),
          kind: z.enum(["reroll", "vllm", "sglang", "llama-cpp"]).describe("What runs there."),
          apiKey: z.string().nullable().default(null).describe("Sent as bearer token; not written to the run folder."),
        })
        .nullable()
        .default(null)
        .describe("Sample with a server instead of an engine of its own."),
    })
    .prefault({}),
  tracking: z
    .strictObject({
      folder: z
        .string()
        .default("runs")
        .describe("Where run folders are made. Default $REROLL_HOME/runs where that is set."),
      trajectoriesEvery: z.int().min(0).default(1).describe("Steps between records of trajectories; 0: none."),
      maxGroups: z.int().positive().default(8).describe("Groups of a step that are recorded."),
      tensorboard: z.boolean().default(true).describe("Write event files beside the metrics."),
      wandb: z
        .strictObject({
          project: z.string().describe("Where the run is listed."),
          url: z.string().default("https://api.wandb.ai").describe("The server."),
        })
        .nullable()
        .default(null)
        .describe("Send metrics to Weights & Biases; the key is read from WANDB_API_KEY."),
      mlflow: z
        .strictObject({
          url: z.string().describe("The server."),
          experiment: z.string().default("reroll").describe("Where the run is listed."),
        })
        .nullable()
        .default(null)
        .describe("Send metrics to MLflow."),
      tags: z.array(z.string()).default([]).describe("Words to find the run by."),
    })
    .prefault({}),
});

/** A run with every key settled. */
export type RunConfig = z.output<typeof runConfig>;

/** What a run file may hold. */
export type RunInput = z.input<typeof runConfig>;
