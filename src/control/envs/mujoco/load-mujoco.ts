/**
 * MuJoCo itself, as its official WebAssembly build: loaded at the first call and once per thread, so that nobody pays for it
 * who does not use it.
 */
import type { MainModule } from "@mujoco/mujoco";

/** The loaded library. */
export type Mujoco = MainModule;

let loading: Promise<Mujoco> | undefined;

/** The library of this thread. */
export function loadMujoco(): Promise<Mujoco> {
  loading ??= import("@mujoco/mujoco").then(({ default: load }) => load());
  return loading;
}
