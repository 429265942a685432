/**
 * MuJoCo itself, in its official WebAssembly build. It is loaded by the first call and once per thread, so that runs without it
 * pay nothing for it.
 *
 * The package is optional, so what we use of it is declared here: our own declarations must not depend on its.
 */
import { expectPackage } from "../../../errors/optional-package.ts";

/** A compiled model. Its arrays view MuJoCo's memory. */
export interface MjModel {
  readonly geom_type: Int32Array;
  readonly geom_size: Float64Array;
  readonly body_mass: Float64Array;
  readonly dof_damping: Float64Array;
  isDeleted(): boolean;
  delete(): void;
}

/** The state of one simulation. Its arrays view MuJoCo's memory. */
export interface MjData {
  readonly qpos: Float64Array;
  readonly qvel: Float64Array;
  readonly ctrl: Float64Array;
  readonly qfrc_applied: Float64Array;
  readonly geom_xpos: Float64Array;
  readonly geom_xmat: Float64Array;
  delete(): void;
}

interface DoubleBuffer {
  GetView(): Float64Array;
  delete(): void;
}

/** The loaded library, as far as we use it. */
export interface Mujoco {
  readonly MjModel: { from_xml_string(xml: string): MjModel };
  readonly MjData: new (model: MjModel) => MjData;
  readonly DoubleBuffer: new (size: number) => DoubleBuffer;
  readonly mjtState: { readonly mjSTATE_INTEGRATION: { readonly value: number } };
  mj_resetData(model: MjModel, data: MjData): void;
  mj_forward(model: MjModel, data: MjData): void;
  mj_step(model: MjModel, data: MjData): void;
  mj_kinematics(model: MjModel, data: MjData): void;
  mj_stateSize(model: MjModel, signature: number): number;
  mj_getState(model: MjModel, data: MjData, state: DoubleBuffer, signature: number): void;
  mj_setState(model: MjModel, data: MjData, state: number[], signature: number): void;
}

let loading: Promise<Mujoco> | undefined;

/** The library of this thread. */
export async function loadMujoco(): Promise<Mujoco> {
  expectPackage("@mujoco/mujoco", "This environment");
  loading ??= import("@mujoco/mujoco").then(async ({ default: load }) => (await load()) as unknown as Mujoco);
  return loading;
}
