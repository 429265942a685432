/** Validation alone: weights and a run file in, the metrics of its validation out. Trains nothing and writes nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { Metrics } from "../flow/metrics.ts";
import { startThreadedEngine } from "../generation/local/threaded-engine.ts";
import { runClock } from "../tracking/run-clock.ts";
import { buildEpisodes, buildWorld } from "./build-rollout.ts";
import { wholeModel } from "./export-model.ts";
import type { FoundModel } from "./find-model.ts";
import { placeRun } from "./machine.ts";
import { type RunConfig, runConfig } from "./run-config.ts";
import { buildValidation } from "./validation.ts";

/** The metrics of one validation. A run file without a `validation` gets that key's defaults. */
export async function evaluateModel(model: FoundModel, config: RunConfig, signal: AbortSignal): Promise<Metrics> {
  const validated = config.validation === null ? { ...config, validation: defaultValidation() } : config;
  const scratch = await mkdtemp(join(tmpdir(), "reroll-merged-"));
  const opened: { close(): Promise<void> }[] = [];
  try {
    const folder = await wholeModel(model, scratch);
    const world = await buildWorld(validated, runClock);
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
