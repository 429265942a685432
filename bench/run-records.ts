/** What a run folder says about what was trained on: how often each sample was, and whether any is missing. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Counts over a whole run. */
export interface RecordCounts {
  readonly numSteps: number;
  /** Steps that have no line of metrics, or more than one. */
  readonly wrongSteps: readonly number[];
  /** Steps that trained on another number of trajectories than the run file says. */
  readonly shortSteps: readonly number[];
  /** Trajectories that were trained on. */
  readonly numTrained: number;
  /** Those that were trained on before: the same sample of the same prompt. */
  readonly numTwice: number;
  /** Prompts that no step was trained on although later ones were; those that were still being sampled at the end are not counted. */
  readonly numLost: number;
  readonly numFailed: number;
  /** Mean reward of each step. */
  readonly rewards: readonly number[];
}

interface TrajectoryLine {
  readonly step: number;
  readonly fate: string;
  readonly prompt: { readonly id: string };
  readonly sampleIndex: number;
}

/**
 * Of a run that records every trajectory, and whose prompts are numbered in their ids: "game/17".
 *
 * @param perStep trajectories that a step trains on
 * @param maxAhead prompts that may be under way at the same time
 */
export function countRecords(folder: string, perStep: number, maxAhead = 0): RecordCounts {
  const steps = linesOf<{ step: number; kind: string; metrics: Record<string, number> }>(
    join(folder, "metrics.jsonl"),
  ).filter(({ kind }) => kind === "train");
  const all = readdirSync(join(folder, "trajectories")).flatMap((name) =>
    linesOf<TrajectoryLine>(join(folder, "trajectories", name)),
  );
  const trained = all.filter(({ fate }) => fate === "delivered");
  const samples = new Set(trained.map(({ prompt, sampleIndex }) => `${prompt.id} ${sampleIndex}`));
  const prompts = new Set(trained.map(({ prompt }) => Number(/\d+$/.exec(prompt.id)?.[0])));
  const numbers = Array.from({ length: Math.max(...steps.map(({ step }) => step)) }, (_, i) => i + 1);
  const count = <Line extends { readonly step: number }>(lines: readonly Line[], number: number) =>
    lines.filter(({ step }) => step === number).length;
  return {
    numSteps: steps.length,
    wrongSteps: numbers.filter((number) => count(steps, number) !== 1),
    shortSteps: numbers.filter((number) => count(trained, number) !== perStep),
    numTrained: trained.length,
    numTwice: trained.length - samples.size,
    numLost: missing(prompts).filter((number) => number <= Math.max(...prompts) - maxAhead).length,
    numFailed: all.filter(({ fate }) => fate === "failed").length,
    rewards: steps.map(({ metrics }) => metrics["reward/mean"] ?? Number.NaN),
  };
}

/** Numbers between the least and the largest that are not there. */
function missing(numbers: ReadonlySet<number>): number[] {
  const least = Math.min(...numbers);
  const all = Array.from({ length: Math.max(...numbers) - least + 1 }, (_, i) => least + i);
  return all.filter((number) => !numbers.has(number));
}

function linesOf<Line>(path: string): Line[] {
  const lines = readFileSync(path, "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Line);
}
