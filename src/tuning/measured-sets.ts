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

interface MeasuredSets {
  readonly train: readonly TuningExample[];
  readonly validation: readonly TuningExample[] | null;
}

const numbersOfSet = z.array(z.record(z.string(), z.number()));
const measuredFile = z.object({ digest: z.string(), train: numbersOfSet, validation: numbersOfSet });
type MeasuredFile = z.output<typeof measuredFile>;

/** Call it before the trainer has made a step or loaded a state. */
export async function measuredSets(
  { train, validation }: TuningSets,
  trainer: Pick<TuningTrainer, "measure">,
  runFolder: string,
): Promise<MeasuredSets> {
  const path = join(runFolder, "measured.json");
  const digest = `${train.digest} ${validation?.digest ?? ""}`;
  const kept = existsSync(path) ? measuredFile.safeParse(parseJson(await readFile(path, "utf8"))).data : undefined;
  const known = kept?.digest === digest ? kept : null;
  const measured: Omit<MeasuredFile, "digest"> = known ?? {
    train: [...(await trainer.measure(train.examples))],
    validation: validation === null ? [] : [...(await trainer.measure(validation.examples))],
  };
  const isEmpty = measured.train.every((numbers) => Object.keys(numbers).length === 0);
  if (!isEmpty && known === null) await replaceText(path, `${JSON.stringify({ digest, ...measured })}\n`);
  return {
    train: withNumbers(train.examples, measured.train),
    validation: validation === null ? null : withNumbers(validation.examples, measured.validation),
  };
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
