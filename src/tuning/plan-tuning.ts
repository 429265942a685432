/** What a tuning run is going to do, in words, before it starts. Throws where it needs more memory than the machine has. */
import { RerollError } from "../errors/reroll-error.ts";
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { trainerMemory, weightsOf } from "../run/estimate-memory.ts";
import { placeTrainer } from "../run/machine.ts";
import { memoryLines, plural, size } from "../run/plan-run.ts";
import { readMachine } from "../run/prepare-run.ts";
import { rankParts } from "../run/rank-memory.ts";
import type { ExampleSet } from "./examples/build-examples.ts";
import type { TuningSets } from "./prepare-tuning.ts";
import type { TuningConfig } from "./tuning-config.ts";

interface TuningPlan {
  readonly numSteps: number;
  readonly lines: readonly string[];
}

/** `model` is the shape of the weights, `teacher` that of the teacher of a distillation. */
export function planTuning(
  config: TuningConfig,
  data: TuningSets,
  model: CausalLmConfig,
  teacher: CausalLmConfig | null,
): TuningPlan {
  const { loop, training, contextLength } = config;
  const machine = readMachine(placeTrainer(config));
  const isOnGpu = machine.device.startsWith("cuda");
  if (config.model.path !== null && contextLength > model.maxPositions) throw tooManyPositions(contextLength, model);
  const { numTokens } = data.train;
  const numRows = data.train.examples.length;
  const tokensPerStep = Math.ceil((numTokens / numRows) * loop.rowsPerStep);
  const pass = Math.max(data.train.longest, Math.min(training.maxTokensPerMicrobatch, tokensPerStep));
  const alone = [
    ...trainerMemory(config, { model, dtype: machine.dtype, isOnGpu }, pass),
    ...(teacher === null ? [] : [weightsOf("teacher", teacher, machine.dtype)]),
  ];
  const { numRanksHere = 1 } = machine;
  const memory = rankParts(alone, training, { model, isOnGpu }).map((part) => ({
    ...part,
    bytes: numRanksHere * part.bytes,
  }));
  const totalBytes = memory.reduce((sum, { bytes }) => sum + bytes, 0);
  if (totalBytes > machine.memoryBytes) {
    throw new RerollError(
      "NOT_ENOUGH_MEMORY",
      `This run needs about ${size(totalBytes)}, and ${machine.device} has ${size(machine.memoryBytes)}. Set training.recompute to true, ` +
        "lower training.maxTokensPerMicrobatch, or train adapters with model.lora: { rank: 16 }.",
      { totalBytes, memoryBytes: machine.memoryBytes },
    );
  }
  const numSteps = loop.steps ?? Math.ceil((loop.epochs * numRows) / loop.rowsPerStep);
  const { type } = training.schedule;
  const rate = `learning rate ${training.optimizer.lr} ${type === "constant" ? "constant" : `with ${type} decay`}`;
  const numPasses = Math.round((100 * numSteps * loop.rowsPerStep) / numRows) / 100;
  const length = loop.steps === null ? plural(loop.epochs, "epoch") : plural(numPasses, "epoch");
  return {
    numSteps,
    lines: [
      `objective ${config.objective.type}: ${setLine(data.train)}`,
      ...(data.validation === null ? [] : [`validation: ${setLine(data.validation)}`]),
      ...data.train.statements,
      ...(data.validation?.statements ?? []),
      `${plural(numSteps, "step")} of ${plural(loop.rowsPerStep, "row")} = ${length}; ${rate}`,
      ...memoryLines(model, machine, memory, totalBytes),
    ],
  };
}

function setLine({ examples, numTokens, numLossTokens }: ExampleSet): string {
  return `${plural(examples.length, "row")}, ${plural(numTokens, "token")}, of which ${numLossTokens} are trained on`;
}

function tooManyPositions(contextLength: number, { maxPositions }: CausalLmConfig): RerollError {
  return new RerollError(
    "CONTRADICTORY_OPTIONS",
    `contextLength is more than the model was made for: got ${contextLength}, and its config says ${maxPositions} positions. Set contextLength to ${maxPositions} or less.`,
  );
}
