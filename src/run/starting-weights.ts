/**
 * The weights that a run starts from: those of its model, or what a warm start makes of them.
 *
 * A warm start is a phase of its own. It trains the model on given replies, leaves `<run folder>/warm-start/` behind and frees all it had,
 * its optimizer too. Policy, reference and critic then start from that folder, in a new run and in one that is resumed. One that is
 * stopped goes on where it was: see `warm-start-progress.ts`.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { replacePath } from "../files/replace-file.ts";
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import { runTuningLoop } from "../loops/tuning-loop.ts";
import type { RunTracker } from "../tracking/run-tracker.ts";
import type { RankPlaces } from "../training/ranked-trainer.ts";
import { startTuning } from "../training/start-trainer.ts";
import type { RunWorld } from "./build-rollout.ts";
import { Checkpoints } from "./checkpoint.ts";
import type { Placement } from "./machine.ts";
import { policySource } from "./policy-source.ts";
import type { RunConfig } from "./run-config.ts";
import { expectProgress } from "./stop-on-skips.ts";
import { warmStartExamples } from "./warm-start.ts";
import { WarmStartProgress } from "./warm-start-progress.ts";

/** Where to find what a run starts from. */
export interface StartingWeights {
  /** The policy; with LoRA, the model below its adapters. */
  readonly modelFolder: string;
  /** The adapters to begin with. Absent: new ones, or none. */
  readonly adapters?: string;
  /** The same policy as one whole model, adapters added in. Made where a critic or a reference apart starts from it. */
  readonly wholeFolder: string;
}

interface StartParts {
  readonly modelFolder: string;
  readonly runFolder: string;
  readonly world: RunWorld;
  readonly tokenizer: Tokenizer;
  readonly placement: Placement;
  /** Other machines that ranks run on. */
  readonly places: RankPlaces | undefined;
  /** Whether something starts from the policy as one whole model. */
  readonly needsWhole: boolean;
  readonly tracker: RunTracker;
  readonly signal: AbortSignal;
  readonly isResumed: boolean;
  readonly clock: Clock;
}

export async function openStart(config: RunConfig, parts: StartParts): Promise<StartingWeights> {
  const { modelFolder, runFolder, isResumed } = parts;
  const folder = join(runFolder, "warm-start");
  const hasFolder = existsSync(folder);
  const hasTrained = isResumed && (await new Checkpoints(runFolder, config.checkpoint.keep).latest()) !== null;
  if (config.warmStart !== null && hasTrained && !hasFolder) {
    throw new RerollError(
      "CHECKPOINT_BROKEN",
      `${folder} is missing: the run file has a warmStart, and the run to resume has not made one. Start a new run, or remove warmStart.`,
      { folder },
    );
  }
  if (config.warmStart !== null && !hasFolder) await makeWarmStart(config, config.warmStart, folder, parts);
  else if (!hasFolder) return { modelFolder, wholeFolder: modelFolder };
  const trained = join(folder, "model");
  if (config.model.lora === null) return { modelFolder: trained, wholeFolder: trained };
  return { modelFolder, adapters: trained, wholeFolder: join(folder, "merged") };
}

async function makeWarmStart(
  config: RunConfig,
  options: NonNullable<RunConfig["warmStart"]>,
  folder: string,
  parts: StartParts,
): Promise<void> {
  const { modelFolder, runFolder, placement, tracker, signal, needsWhole } = parts;
  const examples = await warmStartExamples(config, options, parts);
  const source = {
    modelFolder,
    tokenizerFolder: modelFolder,
    ...policySource(config, placement),
    objective: { type: "supervised", train: "last", chat: true } as const,
    reference: null,
    optimizer: options.optimizer,
    schedule: options.schedule,
    numUpdates: options.steps,
  };
  const trainer = await startTuning(source, parts.places);
  const { minutes } = config.checkpoint;
  const progress = new WarmStartProgress({ runFolder, trainer, examples, clock: parts.clock, minutes });
  try {
    const numDone = await progress.resume();
    if (numDone > 0) tracker.note(`Going on with the warm start after its step ${numDone}.`);
    const step = async (batch: readonly TuningExample[]) => expectProgress(await trainer.step(batch), batch, runFolder);
    const onStep = async (number: number, metrics: Metrics) => {
      tracker.log(number, "supervised", supervisedMetrics(metrics));
      await progress.afterStep(number, signal.aborted);
      return signal.aborted ? ("stop" as const) : ("continue" as const);
    };
    await runTuningLoop({ trainer: { step }, batchAfter: examples.next, onStep }, numDone, options.steps, signal);
    signal.throwIfAborted();
    await replacePath(folder, async (draft) => {
      await trainer.saveModel(join(draft, "model"));
      if (config.model.lora !== null && needsWhole) await trainer.saveMerged(join(draft, "merged"));
    });
    await progress.clear();
  } finally {
    await trainer.close();
  }
}

/** Under names of their own, since the steps that follow have a loss and a learning rate as well. */
function supervisedMetrics(metrics: Metrics): Metrics {
  const names = Object.entries(SUPERVISED_NAMES).filter(([name]) => metrics[name] !== undefined);
  return Object.fromEntries(names.map(([name, own]) => [own, metrics[name]!]));
}

const SUPERVISED_NAMES = {
  "train/loss": "supervised/loss",
  "train/grad_norm": "supervised/grad_norm",
  "train/skipped_updates": "supervised/skipped_updates",
  "train/lr": "supervised/lr",
  "experience/loss_tokens": "supervised/tokens",
};
