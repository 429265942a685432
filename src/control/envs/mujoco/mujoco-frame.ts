/** A picture of a simulation at one moment: its shapes as plain data, only for drawing. */
import { invariant } from "../../../errors/reroll-error.ts";
import type { MjData, MjModel, Mujoco } from "./load-mujoco.ts";

/** A point in meters along x, y and z; z is up. */
export type Vector = readonly [number, number, number];

/** A shape of the model, or a mark that a task adds. Planes are level; marks have no size. */
export type MujocoShape =
  | { readonly kind: "plane"; readonly position: Vector }
  | { readonly kind: "mark"; readonly position: Vector }
  | {
      readonly kind: "capsule" | "cylinder";
      readonly position: Vector;
      /** Along its length. */
      readonly axis: Vector;
      readonly radius: number;
      readonly halfLength: number;
    };

/** One moment. */
export interface MujocoFrame {
  readonly shapes: readonly MujocoShape[];
}

/** MuJoCo's codes for the kinds of shapes in our models. */
const PLANE = 0;
const CAPSULE = 3;
const CYLINDER = 5;

/** The shapes of a simulation in its current state. Changes nothing that the next step depends on. */
export function readShapes(mujoco: Mujoco, model: MjModel, data: MjData): MujocoShape[] {
  mujoco.mj_kinematics(model, data);
  const types: Int32Array = model.geom_type;
  const sizes: Float64Array = model.geom_size;
  const positions: Float64Array = data.geom_xpos;
  const rotations: Float64Array = data.geom_xmat;
  return Array.from(types, (type, i): MujocoShape => {
    const position = vectorAt(positions, 3 * i, 1);
    if (type === PLANE) return { kind: "plane", position };
    invariant(type === CAPSULE || type === CYLINDER, `shape ${i} is of MuJoCo's kind ${type}, which nobody draws`);
    return {
      kind: type === CAPSULE ? "capsule" : "cylinder",
      position,
      // The third column: both kinds lie along their own z.
      axis: vectorAt(rotations, 9 * i + 2, 3),
      radius: sizes[3 * i]!,
      halfLength: sizes[3 * i + 1]!,
    };
  });
}

function vectorAt(values: Float64Array, start: number, stride: number): Vector {
  return [values[start]!, values[start + stride]!, values[start + 2 * stride]!];
}
