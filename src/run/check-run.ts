/**
 * Finds keys that are valid on their own but cannot work together. Pure; each check says what to change.
 *
 * In: a config whose parts are resolved, and its recipe. Out: nothing, or one error about the first thing that is wrong.
 */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import type { DataOptions } from "../data/data-options.ts";
import { buildEnv, type EnvChoice } from "../envs/catalog.ts";
import { didYouMean } from "../errors/nearest-name.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { weightsOf } from "../experience/replay-priority.ts";
import { kindsThatTake } from "../generation/remote/dialects.ts";
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { splitProblem } from "../models/causal-lm/model-spread.ts";
import { checkStrategy, onlyDataParallel } from "../training/strategy/strategy-options.ts";
import { checkDistillation, checkReflection } from "./check-distillation.ts";
import { checkPlacement } from "./check-placement.ts";
import { checkQuantizedEngine } from "./check-quantized-engine.ts";
import { engineSplitProblem } from "./engine-shares.ts";
import { trainedPlayers } from "./player-options.ts";
import type { RunConfig } from "./run-config.ts";
import { MAX_UNCORRECTED, stalenessBounds } from "./staleness-bound.ts";

/** Throws for the first contradiction. */
export function checkRun(config: RunConfig, recipe: Recipe): void {
  for (const check of CHECKS) {
    const problem = check(config, recipe);
    if (problem !== null) throw new RerollError("CONTRADICTORY_OPTIONS", problem);
  }
}

type Check = (config: RunConfig, recipe: Recipe) => string | null;

/** Recipes that do not compare the trajectories of a prompt with each other, and so need no groups. */
const WITHOUT_GROUPS: readonly string[] = ["ppo", "reinforce", "reinforce-pp", "remax"];

/** Environments whose episodes are elsewhere, where no agent without a model plays. */
const PLAYED_BY_MODELS: readonly string[] = ["remote", "openenv"];

/** A run of any kind that trains a language model. */
type TrainedRun = Pick<RunConfig, "model" | "device"> & {
  readonly training: Pick<RunConfig["training"], "ranks" | "strategy" | "optimizer">;
};

/** What holds for every run that trains a language model. */
const MODEL_CHECKS: readonly ((config: TrainedRun) => string | null)[] = [
  ({ model }) => {
    if (model.path === null && model.preset === null)
      return 'model names no weights: path and preset are both null. Set model.path to a Hugging Face folder, or model.preset to "nano" for a first run.';
    if (model.path !== null && model.preset !== null)
      return `model.path and model.preset are both set: got ${JSON.stringify(model.path)} and ${JSON.stringify(model.preset)}. Leave one out.`;
    return null;
  },
  ({ device }) =>
    /^(auto|cpu|cuda(:\d+)?)$/.test(device)
      ? null
      : `device must be auto, cpu, cuda or cuda:<n>: got ${JSON.stringify(device)}.${didYouMean(device, ["auto", "cpu", "cuda"])}`,
  ({ model, device }) =>
    model.dtype === "bfloat16" && device === "cpu"
      ? 'model.dtype is "bfloat16" on the CPU, where most operators are slower in it or missing. Set model.dtype to "float32" or "auto".'
      : null,
  ({ model, training }) => {
    if (model.quantization === null) return null;
    if (model.lora === null)
      return `model.quantization is ${JSON.stringify(model.quantization)}, and quantized weights cannot be trained. Train adapters over them: set model.lora, such as { rank: 16 }.`;
    return training.ranks > 1
      ? `model.quantization is ${JSON.stringify(model.quantization)} and training.ranks is ${training.ranks}. Set training.ranks to 1, or leave out model.quantization.`
      : null;
  },
  ({ device, training }) =>
    training.ranks > 1 && device.startsWith("cuda:")
      ? `training.ranks is ${training.ranks}, and device is ${JSON.stringify(device)}: ranks take cuda:0 and those after it, one each. Set device to "cuda", or list other devices in placement.trainer.devices.`
      : null,
  ({ training }) => checkStrategy(training.ranks, training.strategy),
  ({ training: { optimizer, strategy } }) =>
    optimizer.moments === "8-bit" && splitsState(strategy)
      ? `training.optimizer.moments is "8-bit", and ${SPLIT_STATE}`
      : null,
];

/** A block of codes has one scale. Where shards begin would decide what is in a block, and so would the number of ranks. */
function splitsState({ zero, tensor, expert, offload }: RunConfig["training"]["strategy"]): boolean {
  return zero > 0 || tensor > 1 || expert > 1 || offload !== "none";
}

const SPLIT_STATE =
  'training.strategy shares them out or keeps them elsewhere, which codes in blocks cannot be. Set moments to "bfloat16" or "full", or leave out zero, tensor, expert and offload.';

/** Throws for the first contradiction about model and device. */
export function checkModel(config: TrainedRun): void {
  const problem = first(MODEL_CHECKS, (check) => check(config));
  if (problem !== null) throw new RerollError("CONTRADICTORY_OPTIONS", problem);
}

/** Throws for the first of the models that trainers hold which cannot be split as `training.strategy` says. */
export function checkSplit({ training }: TrainedRun, shapes: readonly (CausalLmConfig | null)[]): void {
  const problem = first(shapes, (shape) => (shape === null ? null : splitProblem(shape, training.strategy)));
  if (problem !== null) throw new RerollError("CONTRADICTORY_OPTIONS", problem);
}

/** Throws where the engines of a run cannot be split as `placement.engine` says. */
export function checkEngineSplit(config: Pick<RunConfig, "placement">, shape: CausalLmConfig): void {
  const problem = engineSplitProblem(config, shape);
  if (problem !== null) throw new RerollError("CONTRADICTORY_OPTIONS", problem);
}

const CHECKS: readonly Check[] = [
  checkPlacement,
  ({ critic, training: { strategy } }) =>
    critic.optimizer.moments === "8-bit" && splitsState(strategy)
      ? `critic.optimizer.moments is "8-bit", and ${SPLIT_STATE}`
      : null,
  ({ model, players }) =>
    model.quantization !== null && Object.values(players).some(({ type }) => type === "past")
      ? `model.quantization is ${JSON.stringify(model.quantization)}, and a player is a past version, whose engine takes whole weights. Leave out model.quantization, or make the player untrained.`
      : null,
  ...MODEL_CHECKS,
  ({ model, engine }) =>
    model.quantization !== null && engine.remote !== null
      ? "model.quantization goes with an engine in this process, which holds the same quantized weights: leave engine.remote or model.quantization out."
      : null,
  ({ agent, players }) => {
    const names = Object.keys(players);
    if (names.length === 0) return null;
    if (agent === null)
      return `players are those of an agent, and agent is not set: got ${names.join(", ")}. Set agent to a function, or leave players out.`;
    if (trainedPlayers(players).length > 0) return null;
    return `players has nobody to train: got ${names.join(", ")}. Set the type of at least one to "trained".`;
  },
  ({ data, envs }) => (data === null ? checkOwnPrompts(envs) : checkSource(data, envs, "data")),
  ({ validation, data, envs }) => {
    if (validation === null) return null;
    if (validation.data !== null) return checkSource(validation.data, envs, "validation.data");
    const [only, ...others] = Object.keys(envs);
    if (only !== undefined && others.length === 0) return null;
    return `validation.data is missing, and ${data === null ? "" : "data is not the environment's: "}without it the run must have exactly one environment: envs has ${Object.keys(envs).length}. Set validation.data, such as the other part of a split.`;
  },
  ({ warmStart, envs }) => (warmStart?.type === "data" ? checkSource(warmStart.data, envs, "warmStart.data") : null),
  ({ warmStart, envs }) =>
    warmStart?.type === "play" && Object.keys(envs).length === 0
      ? 'warmStart.type is "play", and envs is empty: there is nothing to play. Add an environment, or use { type: "data" }.'
      : null,
  ({ warmStart, envs }) => {
    const away = Object.entries(envs).find(([, { type }]) => PLAYED_BY_MODELS.includes(type));
    return warmStart?.type === "play" && away !== undefined
      ? `warmStart.type is "play", and envs.${away[0]} is of type "${away[1].type}", which nobody but a model can play. Set warmStart to null or to { type: "data" }, or have the environment itself in this run.`
      : null;
  },
  checkRewards,
  (config) => checkDistillation(config, config.data === null ? [] : domainsOf(config.data)),
  checkReflection,
  ({ replay, algorithm }, { hasCritic }) =>
    replay !== null && weightsOf(replay.priority)["td-error"] > 0 && !hasCritic
      ? `replay.priority counts the td-error, and ${algorithm.type} has no critic that could be wrong. Set algorithm.type to "ppo", or replay.priority to "advantage".`
      : null,
  // Lessons and teachers are passes of their own, whose number ranks do not agree on, over scores of the whole vocabulary.
  ({ distillation, reflection, training: { strategy } }) => {
    const other = distillation !== null ? "distillation" : reflection !== null ? "reflection" : null;
    return other === null ? null : onlyDataParallel(strategy, other);
  },
  ({ rollout }) =>
    rollout.sampling.maxTokens >= rollout.contextLength
      ? `rollout.sampling.maxTokens must be below rollout.contextLength, which holds the prompt too: got ${rollout.sampling.maxTokens} and ${rollout.contextLength}. Raise contextLength or lower maxTokens.`
      : null,
  ({ rollout, training }) =>
    training.maxTokensPerMicrobatch < rollout.contextLength
      ? `training.maxTokensPerMicrobatch must hold a whole trajectory: got ${training.maxTokensPerMicrobatch}, and rollout.contextLength is ${rollout.contextLength}. Raise it, or lower contextLength.`
      : null,
  ({ rollout }) =>
    rollout.sampling.temperature === 0
      ? "rollout.sampling.temperature is 0 in training: all trajectories of a prompt would be the same, and there would be nothing to compare. Set it to 1; validation.temperature may be 0."
      : null,
  ({ rollout }, { needs }) =>
    rollout.filter.dropEqualRewards && rollout.groupSize === 1 && !needs.includes("greedyOf")
      ? "rollout.filter.dropEqualRewards is true with rollout.groupSize 1: the rewards of a group of one never differ, and every group would be dropped. Raise groupSize, or turn the filter off."
      : null,
  ({ rollout: { filter } }) =>
    filter.meanReward !== null && filter.meanReward[0] > filter.meanReward[1]
      ? `rollout.filter.meanReward must be [low, high]: got ${JSON.stringify(filter.meanReward)}. Swap them.`
      : null,
  ({ algorithm, rollout, distillation }) =>
    rollout.groupSize === 1 &&
    distillation?.rewards !== false &&
    !WITHOUT_GROUPS.includes(algorithm.type) &&
    algorithm.singleton !== "raw"
      ? `algorithm.type ${JSON.stringify(algorithm.type)} compares the trajectories of a prompt, and rollout.groupSize is 1: every advantage would be 0. Set groupSize to 2 or more (8 is usual), or use reinforce or ppo.`
      : null,
  ({ algorithm, rollout }) =>
    algorithm.type === "pass-at-k" && typeof algorithm.k === "number" && algorithm.k > rollout.groupSize
      ? `algorithm.k must be at most rollout.groupSize: got ${algorithm.k} and ${rollout.groupSize}.`
      : null,
  ({ rollout, training }) => {
    const trajectories = rollout.groupsPerStep * rollout.groupSize;
    const { minibatch } = training;
    if (minibatch === 0 || trajectories % minibatch === 0) return null;
    const count = `${rollout.groupsPerStep} prompts x ${rollout.groupSize} samples = ${trajectories} trajectories`;
    return minibatch > trajectories
      ? `training.minibatch is more than a step has: got ${minibatch}, and ${count}. Set it to 0 for one update per step.`
      : `training.minibatch must divide the trajectories of a step: got ${minibatch}, and ${count}. Use ${nearestDivisor(trajectories, minibatch)}.`;
  },
  ({ loop, rollout }) =>
    loop.type === "sync" && loop.maxStaleness !== null && !rollout.partial
      ? `loop.maxStaleness is ${loop.maxStaleness}, and a synchronous loop trains on fresh tokens alone. Leave it out, set rollout.partial to true, or loop.type to "async".`
      : null,
  ({ engine: { remote } }) => {
    if (remote === null) return null;
    const { kind, weights } = remote;
    const able = kindsThatTake(weights.type).map((one) => JSON.stringify(one));
    const what = {
      files: "new weights",
      adapters: "adapters",
      broadcast: "weights by broadcast",
      "same-gpu": "weights on the trainer's GPU",
    }[weights.type];
    return kindsThatTake(weights.type).includes(kind)
      ? null
      : `engine.remote.kind ${JSON.stringify(kind)} cannot be given ${what}. Use ${able.join(" or ")}, set engine.remote.weights to another way, or leave engine.remote out to sample in this process.`;
  },
  ({ engine: { remote }, model }) =>
    remote?.weights.type === "adapters" && model.lora === null
      ? 'engine.remote.weights is "adapters", and model.lora is not set: the run trains whole weights. Set model.lora, or engine.remote.weights to "files".'
      : null,
  ({ placement, engine }) =>
    engine.remote !== null && placement.engine.count !== null
      ? `placement.engine.count is ${placement.engine.count}, and engine.remote is set: the run has no engines of its own. Leave one of them out.`
      : null,
  ({ rollout, engine }) =>
    rollout.reprefill && engine.remote !== null
      ? "rollout.reprefill is true, and engine.remote is set: a server decides itself what becomes of its running sequences. Set reprefill to false, or leave engine.remote out."
      : null,
  checkExact,
  (config, recipe) => checkQuantizedEngine(config, recipe, correctionAdvice(config)),
  checkSyncInterval,
  checkStaleness,
  ({ rollout, loop }) =>
    rollout.partial && loop.type === "async"
      ? 'rollout.partial is for loop.type "sync"; in an asynchronous loop unfinished trajectories always go on. Set rollout.partial to false.'
      : null,
  ({ replay }) =>
    replay !== null && replay.ratio === 1
      ? "replay.ratio is 1: nothing new would ever be trained on. Set it below 1, 0.25 is usual."
      : null,
  ({ validation, checkpoint }) =>
    validation !== null && validation.patience !== null && validation.every === 0
      ? `validation.patience is ${validation.patience} and validation.every is 0, so there is no validation to be patient about. Set validation.every${checkpoint.every > 0 ? ` to ${checkpoint.every}` : ""}.`
      : null,
];

/** The engine must compute with the very weights and kernels of the trainer. */
function checkExact({ exact, device, model, engine, training }: RunConfig): string | null {
  if (!exact) return null;
  const problems: readonly (readonly [isSo: boolean, why: string])[] = [
    [
      device === "cpu",
      'device is "cpu", where nothing is rounded to 16 bits. Set device to "cuda", or leave exact out',
    ],
    [
      model.dtype === "float32",
      'model.dtype is "float32", and exact kernels are for 16 bits. Set it to "bfloat16" or "auto"',
    ],
    [
      model.lora !== null,
      "model.lora is set: the engine adds adapters to the weights, the trainer keeps them apart. Leave one of them out",
    ],
    [engine.remote !== null, "engine.remote is set: a server has its own kernels. Leave one of them out"],
    [
      training.strategy.tensor * training.strategy.context * training.strategy.expert > 1,
      "training.strategy splits layers or rows, whose parts are added up in an order of their own. Leave tensor, context and expert out; zero and pipeline compute a token as one rank does",
    ],
  ];
  const found = problems.find(([isSo]) => isSo);
  return found === undefined ? null : `exact is true, and ${found[1]}.`;
}

/** A correction that holds at any staleness, whatever the recipe. */
const CORRECTION = '{ importance: { level: "token", threshold: 2 } }';

/** New tokens are up to `syncInterval - 1` steps old when they are drawn: they must be worth drawing. */
function checkSyncInterval(config: RunConfig, recipe: Recipe): string | null {
  const { loop } = config;
  if (loop.type === "sync" || loop.syncInterval - 1 <= loop.maxStaleness) return null;
  const oldest = loop.syncInterval - 1;
  const correction = oldest > MAX_UNCORRECTED && !isCorrected(config, recipe) ? ` and ${correctionAdvice(config)}` : "";
  return `loop.syncInterval is ${loop.syncInterval}, so that tokens are up to ${oldest} training steps old, and loop.maxStaleness is ${loop.maxStaleness}. Set loop.syncInterval to ${loop.maxStaleness + 1} or less, or loop.maxStaleness to ${oldest} or more${correction}.`;
}

function checkStaleness(config: RunConfig, recipe: Recipe): string | null {
  const { loop } = config;
  const tooOld = stalenessBounds(config).filter(({ steps }) => steps > MAX_UNCORRECTED);
  if (tooOld.length === 0 || isCorrected(config, recipe)) return null;
  const keys: string[] = tooOld.map(({ key }) => key);
  if (loop.type === "async" && loop.syncInterval - 1 > MAX_UNCORRECTED) keys.push("loop.syncInterval");
  const facts = tooOld.map(({ key, steps }) => `${key} is ${steps}`).join(" and ");
  const why =
    config.algorithm.bypass === null
      ? "nothing corrects for the weights that drew them"
      : "the clip range around the weights that drew them lies where the policy was";
  return `${facts}: tokens may be that many training steps old, and ${why}. Set ${correctionAdvice(config)}, or ${keys.join(" and ")} to ${MAX_UNCORRECTED} or less.`;
}

function isCorrected({ algorithm }: RunConfig, recipe: Recipe): boolean {
  // Tokens that the algorithm itself leaves out might as well not have been sampled.
  const { max = Number.POSITIVE_INFINITY } = (algorithm.staleness ?? {}) as { readonly max?: number };
  return max <= MAX_UNCORRECTED || recipe.correctsSampler;
}

function correctionAdvice({ algorithm }: RunConfig): string {
  const anchor = algorithm.bypass === null ? "" : " and algorithm.bypass to null";
  return `algorithm.correction to ${CORRECTION}${anchor}`;
}

function makesPrompts(choice: EnvChoice): boolean {
  const { makePrompt, fetchPrompt } = buildEnv(choice);
  return makePrompt !== undefined || fetchPrompt !== undefined;
}

function checkOwnPrompts(envs: RunConfig["envs"]): string | null {
  const names = Object.keys(envs);
  const [only] = names;
  if (only === undefined)
    return 'data is missing, and envs is empty: there are no prompts. Set data, as in { type: "jsonl", path: "train.jsonl" }, or add an environment that makes its own.';
  if (names.length > 1)
    return `data is missing, and envs has ${names.length} environments: ${names.join(", ")}. Say how they are mixed: data: { type: "mix", parts: [{ ratio: 1, source: { type: "env", env: "${only}" } }, ...] }.`;
  if (makesPrompts(envs[only]!)) return null;
  return `data is missing, and the environment envs.${only} of type ${JSON.stringify(envs[only]!.type)} makes no prompts of its own. Set data.`;
}

function checkSource(source: DataOptions, envs: RunConfig["envs"], path: string): string | null {
  if (source.type === "mix")
    return first(source.parts, ({ source: inner }, i) => checkSource(inner, envs, `${path}.parts.${i}.source`));
  if (source.type === "curriculum") {
    if (source.low >= source.high)
      return `${path}.low must be below ${path}.high: got ${source.low} and ${source.high}.`;
    return checkSource(source.source, envs, `${path}.source`);
  }
  if (source.type !== "env") return null;
  const names = Object.keys(envs);
  if (!Object.hasOwn(envs, source.env))
    return `${path}.env names ${JSON.stringify(source.env)}, which is not in envs.${didYouMean(source.env, names)} envs has: ${names.join(", ") || "nothing"}.`;
  if (makesPrompts(envs[source.env]!)) return null;
  return `${path}.env names ${JSON.stringify(source.env)}, which makes no prompts of its own. Take its prompts from a file.`;
}

/** Rows of data are scored by a reward; only environments and agents have rewards of their own. */
function checkRewards({ agent, data, envs, rewards, distillation }: RunConfig): string | null {
  if (data === null || agent !== null || distillation?.rewards === false) return null;
  const names = Object.keys(rewards);
  return first(domainsOf(data), (domain) => {
    const isFine =
      domain === null
        ? names.length > 0 || Object.keys(envs).some((name) => isScored(name, envs, {}))
        : isScored(domain, envs, rewards);
    if (isFine) return null;
    return domain === null || names.length === 0
      ? 'rewards is empty, and rows of data have no reward of their own. Add one, as in rewards: { default: { type: "math" } }.'
      : `rewards has nothing for the domain ${JSON.stringify(domain)} of data: there are rewards for ${names.join(", ")}.${didYouMean(domain, names)} Add rewards.${domain}, or rewards.default.`;
  });
}

function isScored(domain: string, envs: RunConfig["envs"], rewards: RunConfig["rewards"]): boolean {
  // A question with one answer is an environment that leaves the reward to others.
  const pays = (name: string) => Object.hasOwn(envs, name) && envs[name]!.type !== "question-answer";
  return [domain, "default"].some((name) => Object.hasOwn(rewards, name) || pays(name));
}

/** The domains of rows, null where only the rows know theirs. Prompts of environments are scored by them. */
function domainsOf(source: DataOptions): (string | null)[] {
  switch (source.type) {
    case "env":
      return [];
    case "mix":
      return source.parts.flatMap((part) => domainsOf(part.source));
    case "curriculum":
      return domainsOf(source.source);
    case "dataset":
    case "jsonl":
    case "json":
    case "parquet":
    case "rows":
      return [typeof source.domain === "string" ? source.domain : null];
  }
}

function nearestDivisor(total: number, wanted: number): number {
  for (let distance = 1; ; distance++) {
    if (total % (wanted + distance) === 0) return wanted + distance;
    if (wanted > distance && total % (wanted - distance) === 0) return wanted - distance;
  }
}

function first<Value, Found>(values: readonly Value[], find: (value: Value, i: number) => Found | null): Found | null {
  for (const [i, value] of values.entries()) {
    const found = find(value, i);
    if (found !== null) return found;
  }
  return null;
}
