/**
 * MuJoCo itself, in its official WebAssembly build. It is loaded by the first call and once per thread, so that runs without it
 * pay nothing for it.
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
