/** The types of a run file, for editors. At run time nothing happens here: the file is checked when it is loaded. */
import type { RecipeChoice } from "../algorithms/recipes/table.ts";
import type { BuiltInEnv } from "../envs/catalog.ts";
import type { EnvFactory } from "../envs/text-env.ts";
import type { RewardChoice } from "../rewards/catalog.ts";
import type { RunInput } from "./run-config.ts";

/**
 * A built-in environment with the options that differ from its defaults, or your own: `{ type: "custom", ...myEnv() }`.
 */
type RunEnv = BuiltInEnv | ({ readonly type: "custom" } & EnvFactory);

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
