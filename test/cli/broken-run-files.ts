/** Run files with one mistake each, and what a person must be told about it. */
import { exampleRun } from "./example-run.ts";

export interface BrokenRunFile {
  readonly name: string;
  /** The ending decides how it is read. */
  readonly file: string;
  readonly text: string;
  /** Words after the file on the command line. */
  readonly flags?: readonly string[];
  /** What the message must name, and what it must tell to do. */
  readonly says: readonly string[];
}

type Change = Readonly<Record<string, unknown>>;

/** The valid example with a change at the top level, as JSON. */
function changed(name: string, change: Change, ...says: string[]): BrokenRunFile {
  return { name, file: "run.json", text: JSON.stringify({ ...exampleRun, ...change }, null, 2), says };
}

function rollout(name: string, change: Change, ...says: string[]): BrokenRunFile {
  return changed(name, { rollout: { ...exampleRun.rollout, ...change } }, ...says);
}

function training(name: string, change: Change, ...says: string[]): BrokenRunFile {
  return changed(name, { training: { ...exampleRun.training, ...change } }, ...says);
}

function flagged(name: string, set: string, ...says: string[]): BrokenRunFile {
  return { ...changed(name, {}), flags: ["--set", set], says };
}

function text(name: string, file: string, content: string, ...says: string[]): BrokenRunFile {
  return { name, file, text: content, says };
}

export const brokenRunFiles: readonly BrokenRunFile[] = [
  // The file itself.
  text("syntax-ts", "syntax.ts", "export default {\n  seed: ,\n};\n", "syntax.ts:2:8", 'Unexpected ","'),
  text("syntax-yaml", "syntax.yaml", "model:\n  preset: [nano\nseed: 1\n", "syntax.yaml:", "cannot be read"),
  text("syntax-json", "syntax.json", '{ "seed": 1,\n  "name": "x"', "syntax.json:2:", "cannot be read"),
  text("no-export", "none.ts", "export const config = {};\n", "exports no run", "export default defineRun"),
  text("a-function", "function.ts", "export default () => ({});\n", "must hold an object", "got a function"),
  text("a-list", "list.yaml", "- a\n- b\n", "must hold an object", "got a list"),
  text("empty", "empty.yaml", "", "must hold an object", "got null"),
  text("unknown-ending", "run.toml", "seed = 1\n", '".toml"', "Known are: .ts"),
  text("broken-import", "import.ts", 'import "./nowhere.ts";\nexport default {};\n', "nowhere.ts", "cannot be loaded"),
  // What a run needs from elsewhere.
  changed(
    "reward-model-missing",
    { rewards: { default: { type: "reward-model", path: "./no/judge" } } },
    'rewards.default.path names "./no/judge"',
    "does not exist",
  ),
  changed(
    "reward-model-missing-in-a-combination",
    {
      rewards: {
        lake: { type: "combine", mode: "weighted", parts: [{ reward: { type: "reward-model", path: "no" } }] },
      },
    },
    'rewards.lake.parts.0.reward.path names "no"',
  ),
  changed(
    "judge-key-unset",
    {
      rewards: {
        default: {
          type: "judge",
          mode: "rubric",
          baseUrl: "http://localhost:1/v1",
          model: "m",
          apiKey: { env: "NO_SUCH_KEY" },
        },
      },
    },
    "rewards.default.apiKey is read from the environment variable NO_SUCH_KEY",
    "Export it",
  ),
  changed(
    "engine-key-unset",
    { engine: { remote: { kind: "reroll", url: "http://localhost:1", apiKey: { env: "NO_SUCH_KEY" } } } },
    "engine.remote.apiKey is read from the environment variable NO_SUCH_KEY",
  ),
  changed(
    "engine-without-weights",
    { engine: { remote: { kind: "llama-cpp", url: "http://localhost:1" } } },
    'engine.remote.kind "llama-cpp" cannot be given new weights',
    'Use "reroll" or "vllm" or "sglang"',
  ),
  // Keys of the schema.
  changed("unknown-key", { rolout: {} }, "rolout is not an option", "Did you mean rollout?"),
  rollout("unknown-nested-key", { groupsize: 4 }, "rollout.groupsize", "Did you mean groupSize?"),
  rollout("deep-unknown-key", { sampling: { maxTokns: 16 } }, "rollout.sampling.maxTokns", "Did you mean maxTokens?"),
  changed("model-missing", { model: undefined }, "model is missing", 'as in { preset: "nano" }'),
  changed("model-empty", { model: {} }, "model names no weights", 'model.preset to "nano"'),
  changed("model-both", { model: { preset: "nano", path: "x" } }, "model.path and model.preset", "Leave one out"),
  changed(
    "preset-typo",
    { model: { preset: "nanno" } },
    "model.preset must be one of nano, micro",
    "Did you mean nano?",
  ),
  changed("training-missing", { training: undefined }, "training is missing", "an object"),
  changed(
    "ranks-on-one-gpu",
    { device: "cuda:1", training: { ...exampleRun.training, ranks: 2 } },
    'training.ranks is 2, and device is "cuda:1"',
    'Set device to "cuda"',
  ),
  training(
    "ranks-not-divided",
    { ranks: 3, strategy: { tensor: 2 } },
    "training.ranks must be a multiple of training.strategy.tensor: got 3 and 2.",
    "Set ranks to 2 or a multiple of it",
  ),
  training(
    "strategy-unknown",
    { ranks: 2, strategy: { stages: 2 } },
    "training.strategy.stages is not an option",
    "zero, tensor, context, expert, pipeline, offload, in",
  ),
  training(
    "eight-bit-sharded",
    { ranks: 2, strategy: { zero: 1 }, optimizer: { lr: 1e-3, moments: "8-bit" } },
    'training.optimizer.moments is "8-bit", and training.strategy shares them out',
    'Set moments to "bfloat16"',
  ),
  training("lr-missing", { optimizer: {} }, "training.optimizer.lr is missing", "Learning rate"),
  training("lr-negative", { optimizer: { lr: -1 } }, "training.optimizer.lr is not valid: got -1", "more than 0"),
  training("lr-text", { optimizer: { lr: "fast" } }, 'training.optimizer.lr is not valid: got "fast"', "a number"),
  rollout(
    "size-zero",
    { groupSize: 0 },
    "rollout.groupSize is not valid: got 0",
    "more than 0",
    "Trajectories sampled for each prompt",
  ),
  rollout("size-fraction", { groupSize: 1.5 }, "rollout.groupSize is not valid: got 1.5", "a whole number"),
  rollout("hot", { sampling: { maxTokens: 16, temperature: 1e300 } }, "rollout.sampling.temperature", "at most 10000"),
  rollout("cold", { sampling: { maxTokens: 16, temperature: 1e-40 } }, "rollout.sampling.temperature", "0.0001"),
  rollout("top-p-tiny", { sampling: { maxTokens: 16, topP: 1e-300 } }, "rollout.sampling.topP", "at least"),
  rollout("top-k-huge", { sampling: { maxTokens: 16, topK: 2 ** 40 } }, "rollout.sampling.topK", "at most 2147483647"),
  changed("validation-cold", { validation: { temperature: 5e-324 } }, "validation.temperature", "0.0001"),
  rollout("top-p", { sampling: { maxTokens: 16, topP: 2 } }, "rollout.sampling.topP", "at most 1"),
  changed("name-with-slash", { name: "a/b" }, 'name is not valid: got "a/b"', "letters, digits"),
  changed("loop-type", { loop: { type: "asinc" } }, "loop.type must be one of sync, async", "Did you mean async?"),
  changed(
    "loop-key",
    { loop: { type: "sync", syncInterval: 2 } },
    "loop.syncInterval is not an option",
    "Known are: type, steps",
  ),
  rollout("pair", { filter: { meanReward: [0.1] } }, "rollout.filter.meanReward", "at least 2 items"),
  // Parts, by their catalogs.
  changed("env-type", { envs: { lake: { type: "frozen-lak" } } }, "envs.lake.type", "Did you mean frozen-lake?"),
  changed("env-without-type", { envs: { lake: { size: 4 } } }, "envs.lake.type is missing", "a text"),
  changed("env-option", { envs: { lake: { type: "frozen-lake", sise: 4 } } }, "envs.lake.sise", "Did you mean size?"),
  changed(
    "env-value",
    { envs: { lake: { type: "frozen-lake", size: 1 } } },
    "envs.lake.size is not valid: got 1",
    "at least 2",
  ),
  changed("env-custom", { envs: { lake: { type: "custom" } } }, "envs.lake", "makeEnv"),
  changed("reward-type", { rewards: { lake: { type: "maths" } } }, "rewards.lake.type", 'Did you mean "math"?'),
  changed(
    "reward-option",
    { rewards: { lake: { type: "choice", leters: "AB" } } },
    "rewards.lake.leters",
    "Did you mean letters?",
  ),
  changed("algorithm-type", { algorithm: { type: "gprpo" } }, "algorithm.type must be one of", "Did you mean grpo?"),
  changed(
    "algorithm-option",
    { algorithm: { type: "grpo", cliphigh: 0.3 } },
    "algorithm.cliphigh",
    "Did you mean clipHigh?",
  ),
  changed(
    "clip-range",
    { algorithm: { type: "grpo", clipLow: 0.3, clipHigh: 0.2 } },
    "algorithm.clipHigh must be at least",
    "Set clipHigh to 0.3",
  ),
  changed(
    "bypass-epochs",
    { algorithm: { type: "grpo", numEpochs: 2, bypass: {} } },
    "bypass mode",
    "Set numEpochs to 1",
  ),
  // Keys against each other.
  changed("no-prompts", { envs: {} }, "data is missing, and envs is empty", "Set data"),
  changed(
    "two-envs",
    { envs: { a: { type: "frozen-lake" }, b: { type: "sokoban" } } },
    "data is missing",
    'type: "mix"',
  ),
  changed(
    "env-without-prompts",
    { envs: { qa: { type: "question-answer" } } },
    "envs.qa",
    "makes no prompts of its own",
  ),
  changed("data-env-name", { data: { type: "env", env: "laek" } }, "data.env", "Did you mean lake?"),
  changed(
    "data-type",
    { data: { type: "jsonlines", path: "x" } },
    "data.type must be one of jsonl",
    "Did you mean jsonl?",
  ),
  changed(
    "data-missing",
    { data: { type: "jsonl", path: "no/such.jsonl" }, rewards: { default: { type: "math" } } },
    "data.path",
    "no/such.jsonl does not exist",
  ),
  changed(
    "reward-missing",
    { data: { type: "rows", rows: [{ prompt: "1+1", truth: "2" }] }, envs: {} },
    "rewards is empty",
    'rewards: { default: { type: "math" } }',
  ),
  changed(
    "reward-domain",
    {
      data: { type: "rows", domain: "maths", rows: [{ prompt: "1+1", truth: "2" }] },
      envs: {},
      rewards: { math: { type: "math" } },
    },
    'the domain "maths"',
    "Did you mean math?",
  ),
  rollout(
    "context-too-short",
    { contextLength: 16 },
    "rollout.sampling.maxTokens must be below rollout.contextLength",
    "Raise contextLength",
  ),
  rollout(
    "temperature-zero",
    { sampling: { maxTokens: 16, temperature: 0 } },
    "rollout.sampling.temperature is 0",
    "Set it to 1",
  ),
  rollout("group-of-one", { groupSize: 1 }, 'algorithm.type "grpo"', "Set groupSize to 2 or more"),
  rollout(
    "filter-of-one",
    { groupSize: 1, filter: { dropEqualRewards: true } },
    "rollout.filter.dropEqualRewards",
    "Raise groupSize",
  ),
  training("minibatch", { minibatch: 3 }, "training.minibatch must divide", "= 16 trajectories. Use 4"),
  training("minibatch-too-large", { minibatch: 64 }, "training.minibatch is more than a step has", "Set it to 0"),
  training(
    "microbatch",
    { maxTokensPerMicrobatch: 100 },
    "training.maxTokensPerMicrobatch must hold a whole trajectory",
    "Raise it",
  ),
  training(
    "tensor-misfit",
    { ranks: 3, strategy: { tensor: 3 } },
    "training.strategy.tensor must divide the parts of the model: got 3, and it has 4 heads",
    "Use 2",
  ),
  training(
    "context-misfit",
    { ranks: 3, strategy: { context: 3 } },
    "training.strategy.context must deal out the heads of the model evenly: got 3, and each rank has 4, with 4 of keys and values",
    "divisor",
  ),
  changed("validation-patience", { validation: { patience: 3 } }, "validation.patience is 3", "Set validation.every"),
  // Keys that have another name now.
  training("renamed-recompute", { checkpoint: true }, "training.checkpoint is now training.recompute"),
  changed("renamed-threads", { trainerThreads: 2 }, "trainerThreads is now training.threads"),
  changed(
    "renamed-overlong",
    { algorithm: { type: "dapo", overlong: { maxLength: 64, buffer: 16 } } },
    "algorithm.overlong.maxLength is now algorithm.overlong.maxTokens",
  ),
  changed(
    "renamed-kl-target",
    { algorithm: { type: "grpo", klReward: { coefficient: 0.1, adaptive: { target: 1 } } } },
    "algorithm.klReward.adaptive.target is now algorithm.klReward.adaptive.targetKl",
  ),
  // Files and the machine.
  changed("model-folder", { model: { path: "no/such/model" } }, "model.path", "Hugging Face layout"),
  changed("reference-folder", { reference: "no/such/model" }, "reference names", "does not exist"),
  changed("device", { device: "gpu" }, 'device must be auto, cpu, cuda or cuda:<n>: got "gpu"', "Did you mean cpu?"),
  changed(
    "too-large",
    {
      rollout: { ...exampleRun.rollout, contextLength: 4_000_000, maxInFlight: 1 },
      training: { optimizer: { lr: 0.001 }, maxTokensPerMicrobatch: 4_000_000 },
    },
    "This run needs about",
    "Set training.recompute to true",
  ),
  // --set.
  flagged("set-without-value", "seed", "--set takes key=value", 'got "seed"'),
  flagged("set-unknown-key", "rollout.groupSise=4", "rollout.groupSise is not an option", "Did you mean groupSize?"),
  flagged("set-renamed-key", "training.checkpoint=true", "training.checkpoint is now training.recompute"),
  flagged(
    "set-broken-json",
    "rollout.filter.meanReward=[0.1",
    "rollout.filter.meanReward starts with [",
    "is not JSON",
  ),
  flagged("set-below-a-value", "name.first=x", "--set name.first", "Set name itself"),
];
