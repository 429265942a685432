/** Validation alone: weights and a run file in, a report out. Plays episodes as training does, trains nothing and writes nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { startThreadedEngine } from "../generation/local/threaded-engine.ts";
import { guardForeignCalls } from "../rollout/foreign-calls.ts";
import { runClock } from "../tracking/run-clock.ts";
import { buildEpisodes, buildWorld } from "./build-rollout.ts";
import { type EvalReport, evalReport } from "./evaluation/eval-report.ts";
import { wholeModel } from "./export-model.ts";
import type { FoundModel } from "./find-model.ts";
import { callsForeignCodeHere, hasForeignCode } from "./foreign-code.ts";
import { HubPaths } from "./hub-paths.ts";
import { placeRun } from "./machine.ts";
import { openAgent } from "./open-agent.ts";
import { type RunConfig, runConfig } from "./run-config.ts";
import { buildValidation } from "./validation.ts";
import { startWatchdog } from "./watchdog.ts";

/** How much is sampled, and what counts. */
export interface EvalSettings {
  /** Trajectories per prompt. Default 1. */
  readonly samples?: number | undefined;
  /** Default: that of the validation for one sample, and that of training for several. */
  readonly temperature?: number | undefined;
  /** The reward from which a sample counts as a success. Default 1. */
  readonly success?: number | undefined;
  /** Default: as many as the validation takes. */
  readonly prompts?: number | undefined;
  /** The folder of the model that adapters belong to. Default: the one that is recorded with them. */
  readonly base?: string | undefined;
}

interface EvaluateOptions extends EvalSettings {
  /** Where names on the Hub are looked up. Default: as the environment says. */
  readonly paths?: HubPaths;
  readonly signal: AbortSignal;
  /** Where the config comes from: its environments and rewards run in threads that load it. */
  readonly runFile?: string;
  /** Told of what code of the run file does beside its calls. */
  readonly report: (text: string) => void;
}

/**
 * One validation, with an agent where the run has one. A run file without a `validation` gets that key's defaults, and where its
 * prompts are rows of data, those are measured, once through; the caller is told.
 */
export async function evaluateModel(
  model: FoundModel,
  config: RunConfig,
  options: EvaluateOptions,
): Promise<EvalReport> {
  const { report } = options;
  const guard = guardForeignCalls(report, callsForeignCodeHere(config, options.runFile));
  const limitMs = 1000 * config.rollout.limits.episodeSeconds;
  const watchdog = hasForeignCode(config) ? startWatchdog({ folder: null, limitMs, report }) : null;
  try {
    return await Promise.race([evaluate(model, config, options), guard.broken]);
  } finally {
    guard.release();
    await watchdog?.close();
  }
}

async function evaluate(model: FoundModel, config: RunConfig, options: EvaluateOptions): Promise<EvalReport> {
  const { signal, runFile, report, base, samples = 1, success = 1 } = options;
  const { temperature, evaluated } = settle(config, { ...options, samples });
  if (measuresTraining(config)) report("The run file has no validation: these are prompts that it trains on.");
  const scratch = await mkdtemp(join(tmpdir(), "reroll-merged-"));
  const opened: { close(): Promise<void> }[] = [];
  const keep = <Part extends { close(): Promise<void> }>(part: Part): Part => {
    opened.push(part);
    return part;
  };
  try {
    const folder = await wholeModel(model, scratch, options.paths ?? new HubPaths(), base);
    const world = keep(await buildWorld(evaluated, runClock, { report, ...(runFile !== undefined && { runFile }) }));
    const engine = keep(await startEngine(evaluated, folder));
    const shared = { tokenizer: await loadTokenizer(folder), clock: runClock };
    const agentParts = { ...shared, world, engine, onError: sayTo(report), onOverruled: report };
    const agent = config.agent === null ? null : keep(await openAgent(evaluated, config.agent, agentParts));
    const episodes =
      agent?.episodesAt(temperature) ??
      buildEpisodes(evaluated, world, { ...shared, generate: engine.generate, sessionPrefix: "" }, temperature);
    const { metrics, rollout } = await buildValidation(evaluated, world, episodes, runClock, samples)(0, signal);
    const settings = { samples, temperature, success, seed: config.seed };
    const answersOf = world.scorer?.answersOf ?? null;
    return evalReport({ ...settings, groups: rollout?.groups ?? [], metrics, answersOf });
  } finally {
    for (const part of opened.reverse()) await part.close();
    await rm(scratch, { recursive: true, force: true });
  }
}

/** The run as it is evaluated. */
function settle(config: RunConfig, { samples, prompts, temperature: given }: EvalSettings & { samples: number }) {
  const validation = config.validation ?? defaultValidation();
  const temperature = given ?? (samples === 1 ? validation.temperature : config.rollout.sampling.temperature);
  if (samples > 1 && temperature === 0) {
    throw new RerollError(
      "CONTRADICTORY_OPTIONS",
      `--samples is ${samples}, and the temperature is 0: all samples of a prompt would be the same. Set --temperature, such as 0.8.`,
    );
  }
  const evaluated = {
    ...config,
    validation: {
      ...validation,
      temperature,
      prompts: prompts ?? validation.prompts,
      data: measuresTraining(config) ? onePassOver(config.data) : validation.data,
    },
  };
  return { temperature, evaluated };
}

/** Whether all prompts belong to training: rows of data, and no word about validation. */
function measuresTraining({ data, validation }: RunConfig): boolean {
  return validation === null && data !== null && data.type !== "env";
}

function onePassOver(data: RunConfig["data"]): RunConfig["data"] {
  return data === null || data.type === "mix" || data.type === "curriculum" ? data : { ...data, epochs: 1 };
}

function sayTo(report: (text: string) => void): (cause: unknown) => void {
  return (cause) => report(String(cause));
}

function startEngine(config: RunConfig, folder: string) {
  const { device, dtype, engineThreads, engines } = placeRun(config);
  const split = engines[0]?.split;
  const { contextLength, maxInFlight } = config.rollout;
  return startThreadedEngine({
    folder,
    tokenizerFolder: folder,
    device: split?.devices[0] ?? device,
    split,
    dtype,
    numThreads: engineThreads,
    options: { contextLength, maxRunning: config.engine.maxRunning ?? Math.min(256, maxInFlight), seed: config.seed },
  });
}

function defaultValidation(): NonNullable<RunConfig["validation"]> {
  return runConfig.shape.validation.unwrap().unwrap().parse({});
}
