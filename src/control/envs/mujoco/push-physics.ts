/**
 * The hidden physics of the push task: how they are drawn for an episode, and what they mean.
 *
 * Each of the six numbers is drawn on a scale where -1 and 1 are the ends of its range. Training draws all of them within
 * [-1, 1]. Held-out physics have every number beyond an end, by up to an eighth of the range, so that they are new in every
 * respect and still close to what was seen.
 */
import { z } from "zod";
import type { Random } from "../../../random/random.ts";

/** The end of held-out physics, on the scale on which training ends at 1. */
const HELD_OUT_END = 1.25;

/** How many numbers are hidden. */
export const NUM_HIDDEN = 6;

const range = (low: number, high: number) =>
  z
    .tuple([z.number().positive(), z.number().positive()])
    .refine(([from, to]) => from < to, "The first number must be the smaller")
    .default([low, high]);

/** The ranges of training. Ranges with two ends are sampled uniformly in their logarithm. */
export const pushPhysicsOptions = z.strictObject({
  puckMass: range(0.5, 2).describe("Range of the puck's mass, in kilograms."),
  puckDamping: range(1, 4).describe("Range of the puck's damping, in newton seconds per meter."),
  motorStrength: range(0.7, 1.4).describe("Range of the motors' force, relative to its nominal value."),
  motorRotation: z
    .number()
    .min(0)
    .max(140)
    .default(120)
    .describe("Largest rotation of the motors' frame to either side, in degrees."),
  tilt: z
    .number()
    .min(0)
    .default(0.5)
    .describe("Largest pull of the tilted table along x and along y, in meters per second squared."),
});

/** The ranges, resolved. */
type PushRanges = z.output<typeof pushPhysicsOptions>;

/** The physics of one episode. */
export interface PushPhysics {
  readonly puckMass: number;
  readonly puckDamping: number;
  readonly motorStrength: number;
  /** Cosine and sine of the rotation of the motors' frame. */
  readonly cosine: number;
  readonly sine: number;
  readonly tiltX: number;
  readonly tiltY: number;
}

/** Draws one hidden number on the scale above. */
export function drawHidden(random: Random, split: "train" | "heldOut"): number {
  if (split === "train") return 2 * random.uniform() - 1;
  const sign = random.uniform() < 0.5 ? -1 : 1;
  return sign * (HELD_OUT_END - (HELD_OUT_END - 1) * random.uniform());
}

/** The physics that six hidden numbers encode. */
export function physicsOf(hidden: ArrayLike<number>, ranges: PushRanges): PushPhysics {
  const angle = (hidden[3]! * ranges.motorRotation * Math.PI) / 180;
  return {
    puckMass: between(ranges.puckMass, hidden[0]!),
    puckDamping: between(ranges.puckDamping, hidden[1]!),
    motorStrength: between(ranges.motorStrength, hidden[2]!),
    cosine: Math.cos(angle),
    sine: Math.sin(angle),
    tiltX: hidden[4]! * ranges.tilt,
    tiltY: hidden[5]! * ranges.tilt,
  };
}

/** Interpolates logarithmically: -1 is the low end, 1 the high end. */
function between([low, high]: readonly [number, number], place: number): number {
  return low * (high / low) ** ((place + 1) / 2);
}
