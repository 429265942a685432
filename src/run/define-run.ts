/** The types of a run file, for editors. At run time nothing happens here: the file is checked when it is loaded. */
import type { z } from "zod";
import type { RecipeChoice } from "../algorithms/recipes/table.ts";
import type { cartPoleText } from "../envs/cart-pole-text/cart-pole-text.ts";
import type { countdown } from "../envs/countdown/countdown.ts";
import type { frozenLake } from "../envs/frozen-lake/frozen-lake.ts";
import type { questionAnswer } from "../envs/question-answer/question-answer.ts";
import type { sokoban } from "../envs/sokoban/sokoban.ts";
import type { EnvFactory } from "../envs/text-env.ts";
import type { toolUse } from "../envs/tool-use/tool-use.ts";
import type { webshop } from "../envs/webshop/webshop.ts";
import type { RewardChoice } from "../rewards/catalog.ts";
import type { RunInput } from "./run-config.ts";

/** The built-in environments by type, as in the catalog. */
export interface EnvTypes {
  readonly "cart-pole-text": typeof cartPoleText;
  readonly countdown: typeof countdown;
  readonly "frozen-lake": typeof frozenLake;
  readonly "question-answer": typeof questionAnswer;
  readonly sokoban: typeof sokoban;
  readonly "tool-use": typeof toolUse;
  readonly webshop: typeof webshop;
}

/** A built-in environment with the options that differ from its defaults, or one's own: `{ type: "custom", ...myEnv() }`. */
type RunEnv =
  | { [Type in keyof EnvTypes]: { readonly type: Type } & z.input<EnvTypes[Type]["options"]> }[keyof EnvTypes]
  | ({ readonly type: "custom" } & EnvFactory);

/** What a run file may hold, with the options of every built-in part. */
export type RunFile = Omit<RunInput, "envs" | "rewards" | "algorithm"> & {
  readonly envs?: Readonly<Record<string, RunEnv>>;
  readonly rewards?: Readonly<Record<string, RewardChoice>>;
  readonly algorithm?: RecipeChoice;
};

/**
 * A run, typed. Give it as the default export of a run file.
 *
 * @example export default defineRun({ model: { preset: "nano" }, envs: { lake: { type: "frozen-lake" } }, training: { optimizer: { lr: 1e-3 } } });
 */
export function defineRun(run: RunFile): RunFile {
  return run;
}
