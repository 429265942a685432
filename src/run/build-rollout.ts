/** From config to the parts of rollout: environments, rewards, prompts, and the scheduler over them. */

import { ChatFormat } from "../chat/conversation.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { buildSource, type PromptMaker } from "../data/build-source.ts";
import type { DataChoice } from "../data/data-options.ts";
import { buildEnv, catalogModule, type EnvChoice } from "../envs/catalog.ts";
import { questionAnswer } from "../envs/question-answer/question-answer.ts";
import { runInThreads, type ThreadHost } from "../envs/run-in-threads.ts";
import type { EnvFactory, MakeEnv } from "../envs/text-env.ts";
import { revealAll } from "../errors/redact.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { WorkLog } from "../flow/worker-facts.ts";
import type { Generate } from "../generation/generate.ts";
import { buildRoute, type RewardChoice } from "../rewards/catalog.ts";
import type { RewardPlaces } from "../rewards/reward.ts";
import { runRewardInThread } from "../rewards/run-in-thread.ts";
import { createScorer, type Scorer } from "../rewards/score-all.ts";
import { type Admission, admitByStaleness, admitWanted } from "../rollout/admission.ts";
import { createEpisodeRunner, type EpisodeParts, type RunEpisode } from "../rollout/episode.ts";
import { allFilters, dropEqualRewards, type GroupFilter, keepDifficulty } from "../rollout/group-filter.ts";
import { createReflectingRunner } from "../rollout/reflection.ts";
import { type DomainSource, RolloutScheduler, type SchedulerParts } from "../rollout/rollout-scheduler.ts";
import { loadableModule } from "./foreign-code.ts";
import type { RunTeachers } from "./open-teachers.ts";
import { patientPrompts } from "./patient-prompts.ts";
import { RewardModels } from "./reward-models.ts";
import type { RunConfig } from "./run-config.ts";
import { envOfRunFile, type RunFilePlace, rewardOfRunFile, runFilePartsModule } from "./run-file-parts.ts";
import { maxSampledStaleness } from "./staleness-bound.ts";

/** Environments and rewards: built once, shared by training and validation. */
export interface RunWorld {
  readonly envs: Readonly<Record<string, EnvFactory>>;
  /** Who makes prompts: the environments above, or the threads that their episodes live in where they are code of the run file. */
  readonly prompts: Readonly<Record<string, PromptMaker>>;
  readonly makeEnv: MakeEnv;
  /** Makes environments in this thread, whatever the run file says, so that agents without a model can ask them for replies. */
  readonly makeEnvHere: MakeEnv;
  /** Whether the environment of a prompt lives in a thread, where its calls have a limit of their own. */
  readonly keepsTime: (prompt: Prompt) => boolean;
  readonly scorer: Scorer | null;
  readonly rewardModels: Pick<RewardModels, "rest" | "workers">;
  close(): Promise<void>;
}

interface WorldOptions {
  /** A module whose own environments and rewards then run in threads that load it. Absent: they run here. */
  readonly runFile?: string;
  /** Told of what they throw outside of their calls. */
  readonly report?: (text: string) => void;
  /** Told what reward models do. */
  readonly log?: WorkLog;
}

export async function buildWorld(config: RunConfig, clock: Clock, options: WorldOptions = {}): Promise<RunWorld> {
  const { runFile, report, log } = options;
  const loadable = loadableModule(runFile);
  const envs = Object.fromEntries(
    Object.entries(config.envs).map(([domain, choice]) => [domain, inDomain(domain, buildEnv(choice))]),
  );
  const prompts: Record<string, PromptMaker> = mapPrompts(envs, { clock, report });
  const hosted = Object.entries(config.envs).map(([domain, choice]) => {
    const env = envs[domain]!;
    if (choice.type === "custom") {
      if (loadable === null || env.runsInThreads === true) return [domain, env] as const;
      const threads = inOwnThreads(domain, loadable, env, config, report);
      if (env.makePrompt !== undefined) prompts[domain] = promptsInThreads(domain, threads);
      return [domain, threads] as const;
    }
    const staysHere = config.rollout.envThreads === 0 || env.runsInThreads === true;
    return [domain, staysHere ? env : inThreads(domain, choice, env, config)] as const;
  });
  const models = new RewardModels(config, log);
  const places = { startModel: models.start, ...(loadable !== null && { hostCustom: hostRewards(loadable, report) }) };
  const scorer =
    Object.keys(config.rewards).length === 0
      ? null
      : createScorer({
          reward: await buildRoute(config.rewards as Record<string, RewardChoice>, "rewards", places),
          clock,
        });
  // Rows of data need no environment of their own: their messages are the task, and one reply ends it.
  const single = questionAnswer.build(questionAnswer.options.parse({}));
  const makeIn =
    (from: Readonly<Record<string, EnvFactory>>): MakeEnv =>
    (prompt, seed) =>
      (from[prompt.domain] ?? from.default ?? single).makeEnv(prompt, seed);
  const hostedEnvs: Readonly<Record<string, EnvFactory>> = Object.fromEntries(hosted);
  return {
    envs,
    prompts,
    scorer,
    rewardModels: models,
    keepsTime: ({ domain }) => (hostedEnvs[domain] ?? hostedEnvs.default) !== (envs[domain] ?? envs.default),
    makeEnv: makeIn(hostedEnvs),
    makeEnvHere: makeIn(envs),
    close: async () => {
      const opened = new Set([...Object.values(envs), ...hosted.map(([, env]) => env)]);
      await Promise.all([scorer?.close(), ...[...opened].map((env) => env.close?.())]);
    },
  };
}

function inThreads(domain: string, choice: EnvChoice, env: EnvFactory, { rollout }: RunConfig): EnvFactory {
  return runInThreads({
    module: catalogModule,
    exportName: "buildEnv",
    options: revealAll(choice) as EnvChoice,
    numThreads: rollout.envThreads,
    name: `envs.${domain}`,
    timeoutMs: 1000 * rollout.limits.envSeconds,
    ...(env.makePrompt !== undefined && { makePrompt: env.makePrompt }),
    ...(env.words !== undefined && { words: env.words }),
  });
}

/** Threads for an environment of the run file, where none are asked for: a thread that hangs takes only its own episode along. */
const OWN_ENV_THREADS = 2;

/** A thread whose reward said it takes microseconds hangs after this long; one that computes may take its time. */
const SILENT_MS = { instant: 2000, other: 30_000 };

function inOwnThreads(
  domain: string,
  runFile: string,
  env: EnvFactory,
  { rollout }: RunConfig,
  report: WorldOptions["report"],
): ThreadHost {
  return runInThreads({
    ...(report !== undefined && { report }),
    module: runFilePartsModule,
    exportName: envOfRunFile.name,
    options: { runFile, path: `envs.${domain}` } satisfies RunFilePlace,
    numThreads: rollout.envThreads || OWN_ENV_THREADS,
    name: `envs.${domain}`,
    timeoutMs: 1000 * rollout.limits.envSeconds,
    ...(env.words !== undefined && { words: env.words }),
  });
}

function hostRewards(runFile: string, report: WorldOptions["report"]): NonNullable<RewardPlaces["hostCustom"]> {
  return (reward, path) =>
    runRewardInThread({
      reward,
      source: { module: runFilePartsModule, exportName: rewardOfRunFile.name, options: { runFile, path } },
      silentMs: reward.cost === "instant" ? SILENT_MS.instant : SILENT_MS.other,
      report,
    });
}

/** Prompts of an environment's own making belong to the domain that the run file gives it. */
function inDomain(domain: string, { makePrompt, fetchPrompt, ...factory }: EnvFactory): EnvFactory {
  return {
    ...factory,
    ...(makePrompt !== undefined && { makePrompt: (seed: number) => ({ ...makePrompt(seed), domain }) }),
    ...(fetchPrompt !== undefined && {
      fetchPrompt: async (seed: number) => ({ ...(await fetchPrompt(seed)), domain }),
    }),
  };
}

/** Who makes the prompts of each domain: its environment, here or where it is. */
function mapPrompts(
  envs: Readonly<Record<string, EnvFactory>>,
  told: { readonly clock: Clock; readonly report: WorldOptions["report"] },
): Record<string, PromptMaker> {
  return Object.fromEntries(
    Object.entries(envs).map(([domain, env]) => [
      domain,
      env.fetchPrompt ? patientPrompts(domain, env.fetchPrompt, told) : env,
    ]),
  );
}

function promptsInThreads(domain: string, { promptInThread }: ThreadHost): PromptMaker {
  return { makePrompt: async (seed) => ({ ...(await promptInThread(seed)), domain }) };
}

interface EpisodeRunnerParts {
  readonly generate: Generate;
  readonly tokenizer: Tokenizer;
  readonly clock: Clock;
  /** Start of the names of sessions at the engine. */
  readonly sessionPrefix: string;
  /** Present for episodes that are trained on: they know their teachers, and are tried again where the run says so. */
  readonly training?: { readonly teachers: RunTeachers | null };
}

export function buildEpisodes(
  config: RunConfig,
  world: RunWorld,
  parts: EpisodeRunnerParts,
  temperature: number,
): RunEpisode {
  const { context, contextLength, maxTurns, sampling, limits } = config.rollout;
  const { scorer } = world;
  const teachers = parts.training?.teachers ?? null;
  const episodeParts: EpisodeParts = {
    generate: parts.generate,
    makeEnv: world.makeEnv,
    keepsTime: world.keepsTime,
    format: new ChatFormat(parts.tokenizer, { context }),
    ...(scorer !== null && { score: scorer.score }),
    sampling: { ...sampling, temperature },
    limits: {
      maxTurns,
      contextLength,
      episodeMs: 1000 * limits.episodeSeconds,
      generateMs: 1000 * limits.generateSeconds,
      envMs: 1000 * limits.envSeconds,
      rewardMs: 1000 * limits.rewardSeconds,
    },
    sessionPrefix: parts.sessionPrefix,
    clock: parts.clock,
    ...(teachers !== null && { teacherContext: teachers.contextOf }),
  };
  return parts.training === undefined || config.reflection === null
    ? createEpisodeRunner(episodeParts)
    : createReflectingRunner(episodeParts, config.reflection);
}

/** Sources by domain share. The parts of a mixture stay apart, so that shares hold for what is delivered. */
export async function buildSources(config: RunConfig, world: RunWorld): Promise<BuiltSources> {
  const data = config.data ?? defaultData(config, "train");
  const parts = { seed: config.seed, envs: world.prompts };
  const choices =
    data.type === "mix"
      ? data.parts.map(({ ratio, source }) => ({ share: ratio, choice: source }))
      : [{ share: 1, choice: data }];
  const built = await Promise.all(
    choices.map(async ({ share, choice }, i) => {
      const path = data.type === "mix" ? `data.parts.${i}.source` : "data";
      return { share, ...(await buildSource(choice as DataChoice, parts, path)) };
    }),
  );
  return { sources: built, statements: built.flatMap(({ statements }) => statements) };
}

interface BuiltSources {
  readonly sources: readonly DomainSource[];
  readonly statements: readonly string[];
}

/** Where nothing is said about data, the one environment makes the prompts. */
export function defaultData({ envs }: RunConfig, part: "train" | "validation"): DataChoice {
  const [only, ...others] = Object.keys(envs);
  if (only !== undefined && others.length === 0) return { type: "env", env: only, part };
  throw new RerollError(
    "INVALID_OPTION",
    `${part === "train" ? "data" : "validation.data"} is missing. Without it the run must have exactly one environment that makes its own prompts: envs has ${Object.keys(envs).length}.`,
  );
}

export function buildScheduler(
  config: RunConfig,
  runEpisode: RunEpisode,
  sources: readonly DomainSource[],
  clock: Clock,
  others: Pick<SchedulerParts, "onEvent" | "onDroppedPrompt" | "runGreedy"> = {},
): RolloutScheduler {
  const { rollout, loop, seed } = config;
  const { groupSize, maxInFlight, extraSamples } = rollout;
  const filter = buildFilter(rollout.filter);
  return new RolloutScheduler({
    runEpisode,
    sources,
    seed,
    clock,
    ...others,
    options: {
      groupSize,
      maxInFlight,
      extraSamples,
      admission: buildAdmission(config),
      maxFilteredFactor: rollout.filter.maxFactor,
      ...(filter !== null && { filter }),
      maxStaleness: maxSampledStaleness(config),
      rest: loop.type === "async" ? "continue" : rollout.partial ? "hold" : "restart",
    },
  });
}

function buildAdmission({ loop, rollout }: RunConfig): Admission {
  if (loop.type === "sync") return admitWanted(rollout.extraGroups);
  return admitByStaleness(loop.maxStaleness, rollout.groupsPerStep);
}

function buildFilter(options: RunConfig["rollout"]["filter"]): GroupFilter | null {
  const filters = [
    ...(options.dropEqualRewards ? [dropEqualRewards] : []),
    ...(options.meanReward === null ? [] : [keepDifficulty(...options.meanReward)]),
  ];
  return filters.length === 0 ? null : allFilters(filters);
}
