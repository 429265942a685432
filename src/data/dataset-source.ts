/** Prompts of a data set, shuffled anew in each pass. */
import { RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import { deriveSeed } from "../random/random.ts";
import { indexedSource, type PassOptions } from "./indexed-source.ts";
import type { PromptSource } from "./prompt-source.ts";

/** The prompts of the set, and a name that tells it from others. */
interface DatasetSourceOptions extends PassOptions {
  readonly name: string;
  readonly prompts: readonly Prompt[];
}

/**
 * A source over prompts in memory. A position holds for the same prompts in the same order, told by their ids; their text
 * may have changed, so that a run can go on with a better template.
 */
export function datasetSource({ name, prompts, ...passes }: DatasetSourceOptions): PromptSource {
  if (prompts.length === 0) throw new RerollError("DATA_EMPTY", `The data set ${JSON.stringify(name)} has no prompts.`);
  const digest = prompts.reduce((hash, { id }) => deriveSeed(hash, id), 0);
  return indexedSource(
    {
      size: prompts.length,
      promptAt: (index) => prompts[index]!,
      making: { type: "dataset", name, digest },
      title: `The data set ${JSON.stringify(name)}`,
    },
    passes,
  );
}
