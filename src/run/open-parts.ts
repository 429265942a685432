/** Opens what a run works with: the world of its episodes, the engine and the trainer in their threads. */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import type { Clock } from "../flow/clock.ts";
import type { WorkerFacts } from "../flow/worker-facts.ts";
import type { Machines } from "../machines/machines.ts";
import type { RunEpisode } from "../rollout/episode.ts";
import { useExactKernels } from "../torch/exact.ts";
import type { RunTracker } from "../tracking/run-tracker.ts";
import type { Trainer } from "../training/trainer.ts";
import { buildEpisodes, buildWorld, type RunWorld } from "./build-rollout.ts";
import { openAll } from "./engine-parts.ts";
import { placeRun } from "./machine.ts";
import { openAgent } from "./open-agent.ts";
import { openEngine, type RunEngine } from "./open-engine.ts";
import { startRunEngine } from "./open-local-engines.ts";
import { openTeachers } from "./open-teachers.ts";
import { needsWholeStart, openTrainer } from "./open-trainer.ts";
import { PastVersions } from "./past-versions.ts";
import { pastIntervals } from "./player-options.ts";
import { prepareModel } from "./prepare-model.ts";
import { rankPlaces } from "./rank-places.ts";
import type { RunConfig } from "./run-config.ts";
import { openStart } from "./starting-weights.ts";

export interface RunParts {
  readonly world: RunWorld;
  readonly tokenizer: Tokenizer;
  readonly engine: RunEngine;
  /** The engines of players that are past versions. */
  readonly past: PastVersions;
  readonly trainer: Trainer;
  /** Every worker of the run, with what it hosts and holds now. */
  readonly workers: () => Promise<readonly WorkerFacts[]>;
  /** Episodes as this run plays them, sampled at a temperature. */
  readonly episodesAt: (temperature: number) => RunEpisode;
  /** Those that are trained on: measured by teachers, and tried again, where the run says so. */
  readonly trainingEpisodes: () => RunEpisode;
  close(): Promise<void>;
}

interface OpenOptions {
  readonly folder: string;
  readonly clock: Clock;
  /** Told of the steps of a warm start. */
  readonly tracker: RunTracker;
  readonly signal: AbortSignal;
  /** See EngineParts. */
  readonly asked?: AbortSignal;
  readonly isResumed: boolean;
  /** Workers of other machines, where the run has some. */
  readonly machines?: Machines;
  readonly runFile?: string;
  /** Told of failures of the endpoint that agents talk to. */
  readonly onError: (cause: unknown) => void;
  /** Told once of what agents ask of it and do not get. */
  readonly onOverruled: (message: string) => void;
}

export async function openParts(
  config: RunConfig,
  recipe: Recipe,
  { folder, clock, onError, onOverruled, ...options }: OpenOptions,
): Promise<RunParts> {
  const opened: { close(): Promise<void> }[] = [];
  const close = async () => {
    for (const part of opened.reverse()) await part.close();
  };
  const keep = <Part extends { close(): Promise<void> }>(part: Part): Part => {
    opened.push(part);
    return part;
  };
  try {
    const world = keep(
      await buildWorld(config, clock, {
        ...(options.runFile !== undefined && { runFile: options.runFile }),
        report: (text) => options.tracker.note(text),
        log: options.tracker.work,
      }),
    );
    const modelFolder = await prepareModel(config, Object.values(world.envs), folder, (text) =>
      options.tracker.note(text),
    );
    // First of all that reads the model: ranks that do not see it are found out before teachers, engines and the others have begun.
    const places = await rankPlaces(config.training, options.machines, folder, [modelFolder]);
    const tokenizer = await loadTokenizer(modelFolder);
    const { distillation } = config;
    const teachers = distillation === null ? null : keep(await openTeachers(distillation, config, tokenizer));
    const placement = placeRun(config);
    if (config.exact) useExactKernels();
    // Before anything else holds a model: a warm start has the memory of the machine to itself.
    const begun = {
      modelFolder,
      runFolder: folder,
      world,
      tokenizer,
      placement,
      places,
      needsWhole: needsWholeStart(recipe, placement),
    };
    const start = await openStart(config, { ...options, ...begun, clock });
    // The trainer publishes its weights before the first rollout: adapters need not be in what the engine loads.
    const report = (text: string) => options.tracker.note(text);
    const place = {
      modelFolder: start.modelFolder,
      runFolder: folder,
      placement,
      clock,
      report,
      log: options.tracker.work,
      ...(options.asked !== undefined && { asked: options.asked }),
    };
    const trainerPlace = { start, modelFolder, placement, places, log: options.tracker.work };
    const [engineOpening, trainerOpening] = [openEngine(config, place), openTrainer(config, recipe, trainerPlace)];
    await openAll<RunEngine | Trainer>([engineOpening, trainerOpening.then((opened) => opened.trainer)]);
    const engine = keep(await engineOpening);
    const { trainer, workers: trainerWorkers } = await trainerOpening;
    keep(trainer);
    const startEngine = () => startRunEngine(config, place);
    const past = keep(
      await PastVersions.open({ intervals: pastIntervals(config.players), startEngine, runFolder: folder, clock }),
    );
    const shared = { engine: engine.pool, past, tokenizer, world, clock, onError, onOverruled };
    const agent = config.agent === null ? null : keep(await openAgent(config, config.agent, shared));
    let numRunners = 0;
    const playEnvs = (temperature: number, isTraining = false) => {
      const sessionPrefix = `${numRunners++}/`;
      const { generate } = engine.pool;
      const training = isTraining && { training: { teachers } };
      return buildEpisodes(config, world, { generate, tokenizer, clock, sessionPrefix, ...training }, temperature);
    };
    const trainingEpisodes = () => {
      const { temperature } = config.rollout.sampling;
      const episodes = agent?.episodesAt(temperature) ?? playEnvs(temperature, true);
      return teachers?.measured(episodes) ?? episodes;
    };
    const episodesAt = agent?.episodesAt ?? ((temperature: number) => playEnvs(temperature));
    const workers = async () => [
      ...engine.workers(),
      ...(await trainerWorkers()),
      ...(await world.rewardModels.workers()),
    ];
    return { world, tokenizer, engine, past, trainer, workers, episodesAt, trainingEpisodes, close };
  } catch (cause) {
    await close();
    throw cause;
  }
}
