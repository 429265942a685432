/**
 * From a run file to a tuning run that may start: the config is settled, every row read and turned into tokens, the plan made.
 *
 * Nothing is written. What cannot work is refused with one error.
 */

import { ChatFormat } from "../chat/conversation.ts";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { splitByHash } from "../data/split-by-hash.ts";
import { parseOptions } from "../errors/parse-options.ts";
import { expectSecrets } from "../errors/redact.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { HubOptions } from "../hub/hub.ts";
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { parseOverride } from "../run/apply-overrides.ts";
import { modelShape, readShape } from "../run/check-files.ts";
import { checkModel, checkSplit } from "../run/check-run.ts";
import { expectSameVocabulary } from "../run/check-vocabulary.ts";
import { expectWeights } from "../run/check-weights.ts";
import { HubPaths } from "../run/hub-paths.ts";
import type { RawRun } from "../run/load-run-file.ts";
import { modelTokenizer } from "../run/prepare-model.ts";
import { expectLaunched, joinRun, type Origins, overridesOf, type RunEnvironment } from "../run/resolve-run.ts";
import { readsReference } from "../training/objectives/table.ts";
import { checkTuning } from "./check-tuning.ts";
import { buildExamples, type ExampleSet } from "./examples/build-examples.ts";
import { readerOf } from "./examples/table.ts";
import { planTuning } from "./plan-tuning.ts";
import { type TuningConfig, tuningConfig } from "./tuning-config.ts";
import { loadRows, type TuningData } from "./tuning-data.ts";

/** A run with every key settled, and where each value comes from. */
export interface ResolvedTuning {
  readonly config: TuningConfig;
  readonly origins: Origins;
}

/** A run that is checked and may start. */
export interface PreparedTuning extends ResolvedTuning {
  readonly data: TuningSets;
  readonly numSteps: number;
  /** Lines for a person, with one fact each. */
  readonly lines: readonly string[];
}

export interface TuningSets {
  readonly train: ExampleSet;
  /** null for a run without validation. */
  readonly validation: ExampleSet | null;
}

/** Whether a run file describes a run on given data. */
export function isTuningRun({ kind }: RawRun): boolean {
  return kind === "tuning";
}

/** Settles a run file. */
export function resolveTuning(file: RawRun, sets: readonly string[], environment: RunEnvironment): ResolvedTuning {
  const { written, origins } = joinRun(tuningConfig, file, sets.map(parseOverride), overridesOf(environment));
  const config = parseOptions(tuningConfig, written, "");
  expectLaunched(config.training, environment);
  return { config, origins };
}

/** Settles and checks a run, and reads its data. */
export async function prepareTuning(
  file: RawRun,
  sets: readonly string[] = [],
  environment: RunEnvironment = process.env,
  hub: HubOptions = {},
): Promise<PreparedTuning> {
  const paths = new HubPaths(environment, hub);
  const resolved = await localTuning(checkedTuning(file, sets, environment), paths);
  const { config } = resolved;
  const shape = modelShape(config.model);
  checkSplit(config, [shape]);
  if (config.reference !== null) checkReference(config.reference, config, shape);
  expectAllWeights(config);
  const tokenizer = await modelTokenizer(config.model, []);
  const teacher = await checkTeacher(config, tokenizer);
  const data = await readSets(config, tokenizer);
  expectFits(config, data);
  const { numSteps, lines } = planTuning(config, data, shape, teacher);
  return {
    ...resolved,
    data,
    numSteps,
    lines: [
      ...paths.lines,
      ...lines,
      ...(config.objective.type === "supervised" ? endlessReplies(tokenizer, data) : []),
    ],
  };
}

/** What a run would fetch from the Hub; null where everything is here. Rows cannot be counted before they are. */
export async function tuningDownloads(
  file: RawRun,
  sets: readonly string[],
  environment: RunEnvironment = process.env,
): Promise<readonly string[] | null> {
  const paths = new HubPaths(environment, { isPlan: true });
  await localTuning(checkedTuning(file, sets, environment), paths);
  if (paths.pending.size === 0) return null;
  return [...paths.lines, "Rows and memory are counted once these files are here."];
}

function checkedTuning(file: RawRun, sets: readonly string[], environment: RunEnvironment): ResolvedTuning {
  const resolved = resolveTuning(file, sets, environment);
  checkModel(resolved.config);
  checkTuning(resolved.config);
  expectSecrets(resolved.config);
  return resolved;
}

/** The same run with paths of this machine. */
async function localTuning(resolved: ResolvedTuning, paths: HubPaths): Promise<ResolvedTuning> {
  const { config } = resolved;
  const { model, reference, objective, data, validation } = config;
  const local: TuningConfig = {
    ...config,
    model: { ...model, path: await paths.model(model.path, "model.path") },
    reference: await paths.model(reference, "reference"),
    objective:
      objective.type === "distillation"
        ? { ...objective, teacher: await paths.model(objective.teacher, "objective.teacher") }
        : objective,
    data: await paths.files(data, "data"),
    validation: validation && {
      ...validation,
      data: validation.data && (await paths.files(validation.data, "validation.data")),
    },
  };
  return { ...resolved, config: local };
}

function checkReference(reference: string, { objective }: TuningConfig, shape: CausalLmConfig): void {
  if (!readsReference(objective)) {
    throw new RerollError(
      "CONTRADICTORY_OPTIONS",
      `reference is ${JSON.stringify(reference)}, and objective ${objective.type} compares with no reference. Leave it out; dpo, ipo and kto read it.`,
    );
  }
  const { vocabSize } = readShape(reference, "reference");
  if (vocabSize === shape.vocabSize) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `reference must have the vocabulary of the model, since it reads the same tokens: ${reference} has ${vocabSize} tokens, the model ${shape.vocabSize}.`,
  );
}

function expectAllWeights({ model, reference, objective }: TuningConfig): void {
  if (model.path !== null) expectWeights("model.path", model.path);
  if (reference !== null) expectWeights("reference", reference);
  if (objective.type === "distillation") expectWeights("objective.teacher", objective.teacher);
}

/** The shape of the teacher of a distillation, which must speak the model's tokens; null for other objectives. */
async function checkTeacher({ objective }: TuningConfig, tokenizer: Tokenizer): Promise<CausalLmConfig | null> {
  if (objective.type !== "distillation") return null;
  const shape = readShape(objective.teacher, "objective.teacher");
  expectSameVocabulary("objective.teacher", await loadTokenizer(objective.teacher), tokenizer);
  return shape;
}

async function readSets(config: TuningConfig, tokenizer: Tokenizer): Promise<TuningSets> {
  const { data, validation } = config;
  const format = new ChatFormat(tokenizer);
  const reader = readerOf(config.objective);
  const { contextLength, tooLong } = config;
  const build = (rows: Awaited<ReturnType<typeof loadRows>>, { fields, skipInvalid }: TuningData, key: string) =>
    buildExamples(rows, { reader, format, fields, skipInvalid, contextLength, tooLong, key });
  const rows = await loadRows(data, "data");
  if (validation === null) return { train: await build(rows, data, "data"), validation: null };
  if (validation.data !== null) {
    const held = await loadRows(validation.data, "validation.data");
    return {
      train: await build(rows, data, "data"),
      validation: await build(held, validation.data, "validation.data"),
    };
  }
  const split = splitByHash(rows, validation.share, ({ row }) => JSON.stringify(row));
  const [side, empty] = split.train.length === 0 ? ["training", true] : ["validation", split.validation.length === 0];
  if (empty) {
    throw new RerollError(
      "DATA_EMPTY",
      `validation.share is ${validation.share}, and of the ${rows.length} rows of data none falls to ${side}. Change the share, or set validation.data.`,
    );
  }
  return {
    train: await build(split.train, data, "data"),
    validation: await build(split.validation, data, "the held-out share of data"),
  };
}

/** The sequences of an example go through the model together. */
function expectFits({ training }: TuningConfig, { train, validation }: TuningSets): void {
  const longest = Math.max(train.longest, validation?.longest ?? 0);
  const { maxTokensPerMicrobatch } = training;
  if (longest <= maxTokensPerMicrobatch) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `training.maxTokensPerMicrobatch must hold all sequences of a row: got ${maxTokensPerMicrobatch}, and the longest row has ${longest} tokens. Raise it to ${longest}, or lower contextLength.`,
  );
}

/** Says where a model would learn to end replies with a token that sampling does not stop at. */
function endlessReplies({ stopIds, specialIds, tokenOf }: Tokenizer, { train }: TuningSets): string[] {
  const { tokenIds, lossMask } = train.examples[0]!.sequences.at(-1)!;
  const last = tokenIds.at(-1)!;
  if (lossMask.at(-1) === 0 || !specialIds.has(last) || stopIds.includes(last)) return [];
  const known = stopIds.map((id) => tokenOf(id)).join(", ") || "none";
  return [
    `The template ends replies with ${tokenOf(last)}, and the tokens that end a reply are: ${known}. Add ${last} to eos_token_id in generation_config.json, or sampling will run on.`,
  ];
}
