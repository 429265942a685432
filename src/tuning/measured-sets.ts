/**
 * Examples with what their objective has to know of them beforehand, such as the log-probs of a reference.
 *
 * Measured once: the numbers are kept in `<run folder>/measured.json`, and a run that is resumed reads them there.
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { replaceText } from "../files/replace-file.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import type { TuningTrainer } from "../training/trainer.ts";
import type { TuningSets } from "./prepare-tuning.ts";
import type { TuningConfig } from "./tuning-config.ts";

interface MeasuredSets {
  readonly train: readonly TuningExample[];
  readonly validation: readonly TuningExample[] | null;
}

const numbersOfSet = z.array(z.record(z.string(), z.number()));
const measuredFile = z.object({ digest: z.string(), train: numbersOfSet, validation: numbersOfSet });
type MeasuredFile = z.output<typeof measuredFile>;

/** Who measures what: numbers of another objective, or by another reference, are measured anew. */
export type MeasuredBy = Pick<TuningConfig, "objective" | "reference">;

/** Call it before the trainer has made a step or loaded a state. */
export async function measuredSets(
  { train, validation }: TuningSets,
  trainer: Pick<TuningTrainer, "measure">,
  { objective, reference }: MeasuredBy,
  runFolder: string,
): Promise<MeasuredSets> {
  const path = join(runFolder, "measured.json");
  const digest = JSON.stringify([train.digest, validation?.digest ?? null, objective, reference]);
  const kept = existsSync(path) ? measuredFile.safeParse(parseJson(await readFile(path, "utf8"))).data : undefined;
  if (kept?.digest === digest) return joined({ train, validation }, kept);
  // Most objectives measure nothing, which one example shows: the others need not be sent.
  const [probe] = await trainer.measure(train.examples.slice(0, 1));
  if (Object.keys(probe ?? {}).length === 0) return joined({ train, validation }, null);
  const measured: MeasuredFile = {
    digest,
    train: await measureAll(trainer, train.examples),
    validation: await measureAll(trainer, validation?.examples ?? []),
  };
  await replaceText(path, `${JSON.stringify(measured)}\n`);
  return joined({ train, validation }, measured);
}

function joined({ train, validation }: TuningSets, measured: MeasuredFile | null): MeasuredSets {
  if (measured === null) return { train: train.examples, validation: validation?.examples ?? null };
  return {
    train: withNumbers(train.examples, measured.train),
    validation: validation === null ? null : withNumbers(validation.examples, measured.validation),
  };
}

/** Bounds a message to the trainer's thread. A reference is loaded for each call, so there should be few. */
const EXAMPLES_PER_CALL = 16_384;

async function measureAll(
  trainer: Pick<TuningTrainer, "measure">,
  examples: readonly TuningExample[],
): Promise<MeasuredFile["train"]> {
  const numbers: MeasuredFile["train"] = [];
  for (let at = 0; at < examples.length; at += EXAMPLES_PER_CALL)
    numbers.push(...(await trainer.measure(examples.slice(at, at + EXAMPLES_PER_CALL))));
  return numbers;
}

/** Examples with what the objective has to know of them, measured now and kept nowhere. */
export async function measuredExamples(
  trainer: Pick<TuningTrainer, "measure">,
  examples: readonly TuningExample[],
): Promise<readonly TuningExample[]> {
  return withNumbers(examples, await measureAll(trainer, examples));
}

function withNumbers(examples: readonly TuningExample[], measured: MeasuredFile["train"]): readonly TuningExample[] {
  return examples.map((example, i) => ({ ...example, numbers: { ...example.numbers, ...measured[i] } }));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
