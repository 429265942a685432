/** What a kind of project consists of, apart from what all have: package.json, tsconfig.json, README.md. */
import { presetSizes } from "../../models/causal-lm/presets.ts";

/** The answers that a scaffold's files depend on. */
export interface ScaffoldChoices {
  /** A preset, or a folder in Hugging Face layout. */
  readonly model: string;
  /** The name of the project and of its runs. */
  readonly name: string;
}

/** One kind of project. With a preset its reward rises within two minutes on two CPU cores. */
export interface Scaffold {
  /** What it is about, as the answer to a question. */
  readonly label: string;
  /** The text of run.ts. */
  readonly runFile: (choices: ScaffoldChoices) => string;
  /** Texts of further files by name. */
  readonly files: Readonly<Record<string, string>>;
  /** What each further file is, as list items in Markdown. */
  readonly about: string;
  /** What was measured with the preset nano, as a sentence. */
  readonly measured: string;
  /** Whether it trains a language model: the commands that talk to one make sense then. */
  readonly isLanguageModel: boolean;
}

/** Whether weights start from chance, which takes other settings than fine-tuning does. */
export function isPreset(model: string): boolean {
  return Object.hasOwn(presetSizes, model);
}

/** The key `model` of a run file. */
export function modelOf({ model }: ScaffoldChoices): string {
  return isPreset(model) ? `{ preset: ${JSON.stringify(model)} }` : `{ path: ${JSON.stringify(model)} }`;
}

/** The key `training` of a run file, with more keys of it. Weights from chance learn at rates that would destroy trained ones. */
export function trainingOf({ model }: ScaffoldChoices, { presetRate = "1e-3", more = "" } = {}): string {
  const others = more === "" ? "" : `, ${more}`;
  return `{ optimizer: { lr: ${isPreset(model) ? presetRate : "1e-6"} }${others} }`;
}

/** A line of a run file that only presets need, with its line break; nothing for trained models. */
export function presetLine({ model }: ScaffoldChoices, line: string): string {
  return isPreset(model) ? `  ${line}\n` : "";
}
