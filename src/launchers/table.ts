/** All launchers, by the names that `reroll submit --to` takes. */
import { kubernetes } from "./kubernetes.ts";
import type { Launcher } from "./launcher.ts";
import { ray } from "./ray.ts";
import { slurm } from "./slurm.ts";

export const launchers = { slurm, kubernetes, ray } satisfies Record<string, Launcher>;

export type LauncherName = keyof typeof launchers;
