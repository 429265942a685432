/**
 * verl's rollout-correction options, as written in its YAML files and on its command line.
 *
 * Keys may carry the prefix `algorithm.rollout_correction.`; values may be typed or text ("null", "true", "2.0").
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { ImportanceOptions, RejectionName, RolloutCorrectionOptions } from "./correction-options.ts";
import { parseBounds, type Threshold } from "./parse-threshold.ts";

/** The correction that verl's options describe. */
export interface VerlCorrection {
  /** The options of the correction, with convention verl. */
  readonly correction: RolloutCorrectionOptions;
  /** Whether the sampler's log-probs serve as the anchor. */
  readonly isBypass: boolean;
  /** The loss in bypass mode. */
  readonly lossType: "ppo_clip" | "reinforce";
}

const PREFIX = "algorithm.rollout_correction.";
const DEFAULTS = {
  rollout_is: null,
  rollout_is_threshold: 2.0,
  rollout_is_batch_normalize: false,
  rollout_rs: null,
  rollout_rs_threshold: null,
  bypass_mode: false,
  loss_type: "ppo_clip",
} as const;
type Key = keyof typeof DEFAULTS;

/** Reads verl's options. Missing keys have the defaults of verl's YAML: no weights, no rejection, no bypass. */
export function parseVerlOptions(options: Readonly<Record<string, unknown>>): VerlCorrection {
  const values = readKeys(options);
  const isBypass = readFlag("bypass_mode", values.bypass_mode);
  return {
    correction: { convention: "verl", importance: readImportance(values), rejections: readRejections(values) },
    isBypass,
    lossType: readLossType(values.loss_type, isBypass),
  };
}

/**
 * Reads the overrides of a verl command, as in `algorithm.rollout_correction.rollout_is=token`. Other keys are ignored;
 * quotes and backslashes around a value are removed.
 */
export function parseVerlOverrides(overrides: readonly string[]): VerlCorrection {
  const entries = overrides
    .map((override) => override.trim().replace(/^\++/, ""))
    .filter((override) => override.startsWith(PREFIX))
    .map((override) => {
      const split = override.indexOf("=");
      if (split === -1) throw invalid(override, "an override of the form key=value", override);
      return [override.slice(0, split), override.slice(split + 1).replace(/[\\'"]/g, "")] as const;
    });
  return parseVerlOptions(Object.fromEntries(entries));
}

function readKeys(options: Readonly<Record<string, unknown>>): Record<Key, unknown> {
  const values: Record<Key, unknown> = { ...DEFAULTS };
  for (const [name, value] of Object.entries(options)) {
    const key = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;
    if (!isKey(key)) throw invalid(name, `one of ${Object.keys(DEFAULTS).join(", ")}`, name);
    values[key] = isNull(value) ? null : value;
  }
  return values;
}

function readImportance(values: Record<Key, unknown>): ImportanceOptions | null {
  const level = values.rollout_is;
  const threshold = readThreshold("rollout_is_threshold", values.rollout_is_threshold);
  const isSelfNormalized = readFlag("rollout_is_batch_normalize", values.rollout_is_batch_normalize);
  if (threshold !== null) parseBounds("rollout_is_threshold", threshold);
  // As in verl, a threshold or a normalization without a level has no effect: verl's defaults contain one.
  if (level === null || threshold === null) return null;
  if (level === "token" || level === "sequence") return { level, threshold, isSelfNormalized };
  throw invalid("rollout_is", "null, token or sequence", level);
}

function readRejections(values: Record<Key, unknown>): Readonly<Partial<Record<RejectionName, Threshold>>> {
  const thresholds = readThreshold("rollout_rs_threshold", values.rollout_rs_threshold);
  if (values.rollout_rs === null && thresholds === null) return {};
  if (typeof values.rollout_rs !== "string" || thresholds === null) {
    throw new RerollError(
      "CONTRADICTORY_OPTIONS",
      `rollout_rs and rollout_rs_threshold go together: got ${JSON.stringify(values.rollout_rs)} and ` +
        `${JSON.stringify(thresholds)}. Name both, as in rollout_rs: token_k1 and rollout_rs_threshold: "0.5_2.0", or neither.`,
      { rollout_rs: values.rollout_rs, rollout_rs_threshold: thresholds },
    );
  }
  const names = [...new Set(listOf(values.rollout_rs))];
  const bounds = listOf(String(thresholds));
  if (bounds.length !== names.length && bounds.length !== 1) {
    throw invalid("rollout_rs_threshold", `one threshold, or one for each of ${names.join(", ")}`, thresholds);
  }
  return Object.fromEntries(names.map((name, i) => [name, bounds.length === 1 ? bounds[0]! : bounds[i]!]));
}

function readThreshold(name: string, value: unknown): Threshold | null {
  if (value === null || typeof value === "number" || typeof value === "string") return value;
  throw invalid(name, 'a number or text such as "2.0" or "0.5_2.0"', value);
}

function readLossType(value: unknown, isBypass: boolean): "ppo_clip" | "reinforce" {
  if (value !== "ppo_clip" && value !== "reinforce") throw invalid("loss_type", "ppo_clip or reinforce", value);
  if (isBypass || value === "ppo_clip") return value;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    "loss_type: reinforce is a loss of bypass mode: got bypass_mode false. Set bypass_mode to true, or choose the loss " +
      "of the algorithm itself.",
    { loss_type: value, bypass_mode: isBypass },
  );
}

function readFlag(name: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  const text = String(value).toLowerCase();
  if (text === "true" || text === "false") return text === "true";
  throw invalid(name, "true or false", value);
}

function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function isNull(value: unknown): boolean {
  return value === null || value === undefined || value === "null" || value === "None" || value === "~";
}

function isKey(key: string): key is Key {
  return key in DEFAULTS;
}

function invalid(name: string, allowed: string, got: unknown): RerollError {
  return new RerollError("INVALID_ARGUMENT", `${name} must be ${allowed}: got ${JSON.stringify(got)}.`, { name, got });
}
