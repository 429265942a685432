/** The folder of runs, unless another one is given. */
import { join } from "node:path";

/** `$REROLL_HOME/runs`, or `runs` here. */
export function defaultRunsFolder(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  return join(environment.REROLL_HOME ?? "", "runs");
}
