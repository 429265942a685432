/**
 * The console as text: the live view, a line per step, and the summary at the end.
 *
 * In: the state and a width. Out: lines that fit, colored by `colors` and otherwise the same. Pure, so that tests can look at it.
 */
import type { Colors } from "picocolors/types.js";
import { type ConsoleState, timeLeftMs } from "./console-state.ts";
import { clip, formatDuration, formatNumber, formatShare, progressBar, sparkline, wrap } from "./format-value.ts";
import { workers } from "./run-record.ts";
import type { Activity } from "./span-recorder.ts";

/** Columns of the words on the left. */
const LABEL = 10;

/** The view that is drawn over and over while a run goes on. */
export function renderLive(state: ConsoleState, nowMs: number, width: number, colors: Colors): string {
  return [
    ...progressLines(state, nowMs, width, colors),
    seriesLine("reward", state.rewards, bestText(state), width, colors, colors.green),
    seriesLine("success", state.successes, "", width, colors, colors.cyan),
    factsLine("tokens/s", speedFacts(state), width, colors),
    factsLine("steps/s", [["environments", state.latest["throughput/env_steps"], formatNumber]], width, colors),
    factsLine("policy", policyFacts(state), width, colors),
    ...workerLines(state, nowMs, width, colors),
    ...warningLines(state, width, colors),
    colors.dim(clip(`${"run".padEnd(LABEL)}${state.folder}`, width)),
  ]
    .filter((line) => line !== null)
    .join("\n");
}

/** One line per step, for logs and pipes. */
export function renderStep(state: ConsoleState): string {
  const { latest } = state;
  const left = timeLeftMs(state);
  const stepMs = latest["time/step_ms"];
  const facts: Fact[] = [
    ["reward", latest["reward/mean"], formatNumber],
    ["success", latest["env/success"], formatShare],
    ["loss", latest["train/loss"] ?? latest["supervised/loss"], formatNumber],
    ["tokens/s", latest["throughput/step"], formatNumber],
    ["env steps/s", latest["throughput/env_steps"], formatNumber],
    ["step", stepMs, formatDuration],
    ["left", left, formatDuration],
  ];
  return [placeOf(state).text, ...present(facts)].join("  ");
}

/** A line for a validation. */
export function renderValidation(step: number, metrics: Readonly<Record<string, number>>): string {
  const facts: Fact[] = [
    ["reward", metrics["validation/reward/mean"], formatNumber],
    ["success", metrics["validation/env/success"], formatShare],
  ];
  return [`validation at step ${step}`, ...present(facts)].join("  ");
}

/** The summary of a run: its result, its folder, and what to do next; null where it leaves no folder. */
export function renderSummary(
  state: ConsoleState,
  nowMs: number,
  next: readonly string[] | null,
  width: number,
  colors: Colors,
): string {
  const { status, step, numSteps, startStep, startedMs, rewards, bestValidation, numWarnings } = state;
  const folder = next === null ? null : state.folder;
  const paint = status === "finished" ? colors.green : status === "failed" ? colors.red : colors.yellow;
  const numDone = step - startStep;
  const took = `${numDone} ${numDone === 1 ? "step" : "steps"} in ${formatDuration(nowMs - startedMs)}`;
  const [first, last] = [rewards[0], rewards.at(-1)];
  const rows: readonly (readonly [string, string | null])[] = [
    ["error", state.error],
    ["steps", `${step}/${numSteps}, ${took}`],
    ["reward", last === undefined ? null : `${formatNumber(first!)} at first, ${formatNumber(last)} at last`],
    ["best", bestValidation && `${formatNumber(bestValidation.reward)} in validation at step ${bestValidation.step}`],
    ["warnings", numWarnings === 0 || folder === null ? null : `${numWarnings}, in ${folder}/warnings.jsonl`],
    ["run", folder],
  ];
  const lines = rows.flatMap(([label, text]) =>
    text === null ? [] : wrap(text, width - LABEL, 4).map((line, i) => labeled(i === 0 ? label : "", line, colors)),
  );
  // Commands are not wrapped: they are there to be copied.
  const commands = (next ?? []).map((command, i) => labeled(i === 0 ? "next" : "", command, colors));
  return [paint(clip(`${state.name} ${status}`, width)), ...lines, ...commands].join("\n");
}

type Fact = readonly [name: string, value: number | undefined, format: (value: number) => string];

function present(facts: readonly Fact[]): readonly string[] {
  return facts.flatMap(([name, value, format]) => (value === undefined ? [] : [`${name} ${format(value)}`]));
}

function progressLines(state: ConsoleState, nowMs: number, width: number, colors: Colors): readonly string[] {
  const { name, startedMs, status } = state;
  const { text, share } = placeOf(state);
  const left = timeLeftMs(state);
  const times = [
    `${formatDuration(nowMs - startedMs)} gone`,
    ...(left === undefined ? [] : [`${formatDuration(Math.max(0, left - (nowMs - state.steppedMs)))} left`]),
  ].join(", ");
  const bar = progressBar(share, Math.max(0, width - LABEL - times.length - 2));
  return [
    `${colors.bold(clip(name, width - 30))}  ${status === "running" ? "" : `${status} `}${text}  ${formatShare(share)}`,
    `${" ".repeat(LABEL)}${colors.green(bar)}  ${colors.dim(times)}`,
  ];
}

/** Which of how many steps it is at: those of the warm start are counted among themselves. */
function placeOf({ step, numSteps, warmStep, numWarmSteps }: ConsoleState): { text: string; share: number } {
  const [word, done, all] = warmStep === null ? ["step", step, numSteps] : ["warm start", warmStep, numWarmSteps];
  return { text: `${word} ${done}/${all}`, share: all === 0 ? 1 : done / all };
}

function seriesLine(
  label: string,
  values: readonly number[],
  note: string,
  width: number,
  colors: Colors,
  paint: (text: string) => string,
): string | null {
  const last = values.at(-1);
  if (last === undefined) return null;
  const number = formatNumber(last);
  const blocks = sparkline(values, Math.max(0, width - LABEL - number.length - note.length - 4));
  return labeled(label, `${paint(blocks)}  ${number}${note === "" ? "" : `  ${colors.dim(note)}`}`, colors);
}

function bestText({ bestValidation }: ConsoleState): string {
  if (bestValidation === null) return "";
  return `best validation ${formatNumber(bestValidation.reward)} at ${bestValidation.step}`;
}

/** As many facts as fit. */
function factsLine(label: string, facts: readonly Fact[], width: number, colors: Colors): string | null {
  const texts = [...present(facts)];
  while (texts.join("  ").length > width - LABEL) texts.pop();
  return texts.length === 0 ? null : labeled(label, texts.join("  "), colors);
}

function speedFacts({ latest }: ConsoleState): readonly Fact[] {
  return [
    ["generate", latest["throughput/generate"], formatNumber],
    ["train", latest["throughput/train"], formatNumber],
    ["whole step", latest["throughput/step"], formatNumber],
  ];
}

function policyFacts({ latest }: ConsoleState): readonly Fact[] {
  return [
    ["staleness", latest["train/staleness"] ?? latest["rollout/staleness"], formatNumber],
    ["entropy", latest["policy/entropy"], formatNumber],
    ["clipped", latest["policy/clip_fraction"], formatShare],
    ["gap", latest["train/sampler_gap"], formatNumber],
    ["grad norm", latest["train/grad_norm"] ?? latest["supervised/grad_norm"], formatNumber],
  ];
}

/** A line per worker that has ever worked: what it does now, and how much of the last step it did nothing. */
function workerLines(state: ConsoleState, nowMs: number, width: number, colors: Colors): readonly string[] {
  const shown = workers.filter((worker) => state.activities.has(worker) || `idle/${worker}` in state.latest);
  return shown.map((worker, i) => {
    const activity = state.activities.get(worker);
    const idle = state.latest[`idle/${worker}`];
    const text = clip(activity === undefined ? "waits" : activityText(activity, nowMs), width - LABEL - 26);
    const doing = `${worker.padEnd(14)}${text}`;
    const paint = activity === undefined ? colors.dim : (plain: string) => plain;
    const gap = " ".repeat(Math.max(2, Math.min(46, width - LABEL - 10) - doing.length));
    const rest = idle === undefined ? "" : `${gap}${colors.dim(`idle ${formatShare(idle)}`)}`;
    return labeled(i === 0 ? "workers" : "", `${paint(doing)}${rest}`, colors);
  });
}

function activityText({ stage, count, sinceMs }: Activity, nowMs: number): string {
  const doing = activityWords[stage] ?? stage;
  if (count > 1) return `${doing} ${count} samples`;
  return nowMs - sinceMs < 1000 ? doing : `${doing} for ${formatDuration(nowMs - sinceMs)}`;
}

const activityWords: Readonly<Record<string, string>> = {
  generating: "generates",
  environment: "steps",
  scoring: "scores",
  rollout: "awaits rollout",
  train: "trains",
  sync: "publishes weights",
  validate: "validates",
  checkpoint: "saves a checkpoint",
};

function warningLines({ warnings }: ConsoleState, width: number, colors: Colors): readonly string[] {
  return warnings.flatMap(({ text, step }, i) =>
    wrap(`step ${step}: ${text}`, width - LABEL, 2).map((line, row) =>
      labeled(i === 0 && row === 0 ? "warnings" : "", colors.yellow(line), colors),
    ),
  );
}

function labeled(label: string, text: string, colors: Colors): string {
  return `${colors.dim(label.padEnd(LABEL))}${text}`;
}
