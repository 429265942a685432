/** Validation alone: weights and a run file in, the metrics of its validation out. Trains nothing and writes nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { Metrics } from "../flow/metrics.ts";
import { startThreadedEngine } from "../generation/local/threaded-engine.ts";
import { guardForeignCalls } from "../rollout/foreign-calls.ts";
import { runClock } from "../tracking/run-clock.ts";
import { buildEpisodes, buildWorld } from "./build-rollout.ts";
import { wholeModel } from "./export-model.ts";
import type { FoundModel } from "./find-model.ts";
import { hasForeignCode } from "./foreign-code.ts";
import { placeRun } from "./machine.ts";
import { type RunConfig, runConfig } from "./run-config.ts";
import { buildValidation } from "./validation.ts";
import { startWatchdog } from "./watchdog.ts";

interface EvaluateOptions {
  readonly signal: AbortSignal;
  /** Where the config comes from: its environments and rewards run in threads that load it. */
  readonly runFile?: string;
  /** Told of what code of the run file does beside its calls. */
  readonly report: (text: string) => void;
}

/** The metrics of one validation. A run file without a `validation` gets that key's defaults. */
export async function evaluateModel(model: FoundModel, config: RunConfig, options: EvaluateOptions): Promise<Metrics> {
  const { report } = options;
  const isGuarded = hasForeignCode(config);
  const guard = guardForeignCalls(report, isGuarded);
  const limitMs = 1000 * config.rollout.limits.episodeSeconds;
  const watchdog = isGuarded ? startWatchdog({ folder: null, limitMs, report }) : null;
  try {
    return await Promise.race([evaluate(model, config, options), guard.broken]);
  } finally {
    guard.release();
    await watchdog?.close();
  }
}

async function evaluate(model: FoundModel, config: RunConfig, options: EvaluateOptions): Promise<Metrics> {
  const { signal, ...worldOptions } = options;
  const validated = config.validation === null ? { ...config, validation: defaultValidation() } : config;
  const scratch = await mkdtemp(join(tmpdir(), "reroll-merged-"));
  const opened: { close(): Promise<void> }[] = [];
  try {
    const folder = await wholeModel(model, scratch);
    const world = await buildWorld(validated, runClock, worldOptions);
    opened.push(world);
    const engine = await startEngine(validated, folder);
    opened.push(engine);
    const parts = {
      sessionPrefix: "",
      generate: engine.generate,
      tokenizer: await loadTokenizer(folder),
      clock: runClock,
    };
    const episodes = buildEpisodes(validated, world, parts, validated.validation?.temperature ?? 0);
    const { metrics } = await buildValidation(validated, world, episodes, runClock)(0, signal);
    return metrics;
  } finally {
    for (const part of opened.reverse()) await part.close();
    await rm(scratch, { recursive: true, force: true });
  }
}

function startEngine(config: RunConfig, folder: string) {
  const { device, dtype, engineThreads } = placeRun(config);
  const { contextLength, maxInFlight } = config.rollout;
  return startThreadedEngine({
    folder,
    tokenizerFolder: folder,
    device,
    dtype,
    numThreads: engineThreads,
    options: { contextLength, maxRunning: config.engine.maxRunning ?? Math.min(256, maxInFlight), seed: config.seed },
  });
}

function defaultValidation(): NonNullable<RunConfig["validation"]> {
  return runConfig.shape.validation.unwrap().unwrap().parse({});
}
