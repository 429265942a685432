/** Rotary position embedding: the angle of every position and pair, for the scalings that model families use. */
import { RerollError } from "../../errors/reroll-error.ts";
import { arange, tensor } from "../../torch/create.ts";
import type { Device } from "../../torch/dtype.ts";
import { op } from "../../torch/operator.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import type { RopeScaling } from "./rope-scaling.ts";

/** cos and sin of the rotation of each token, [S, K/2], in float32. */
export interface Rotation {
  readonly cos_SK: Tensor;
  readonly sin_SK: Tensor;
}

/** cos and sin of every position and pair, [P, K/2], in float32. */
interface RotationTable {
  readonly cos_PK: Tensor;
  readonly sin_PK: Tensor;
}

/** The rotations of one forward pass: that of the model, and that of layers with a sliding window. */
export interface Rotations {
  readonly whole: Rotation;
  readonly local: Rotation;
}

/** The part of a model's config that fixes its angles. */
type RotaryConfig = Pick<CausalLmConfig, "headSize" | "ropeTheta" | "ropeScaling">;

/** The angles of every layer of a model. */
export class ModelRotary {
  readonly #whole: RotaryTable;
  /** The table of layers with the sliding window, where it is another one. */
  readonly #local: RotaryTable | null;

  constructor(config: CausalLmConfig) {
    const { localRopeTheta, rotarySize } = config.features;
    const rope = { ...config, headSize: rotarySize ?? config.headSize };
    this.#whole = new RotaryTable(rope);
    this.#local =
      localRopeTheta === null
        ? null
        : new RotaryTable({ ...rope, ropeScaling: { type: "default" }, ropeTheta: localRopeTheta });
  }

  /** The rotations of tokens at these positions, once per forward pass. */
  rotationsAt(positions_S: Tensor, maxPosition: number): Rotations {
    const whole = this.#whole.rotationAt(positions_S, maxPosition);
    return { whole, local: this.#local?.rotationAt(positions_S, maxPosition) ?? whole };
  }

  /** The tables that `rotationsAt` looks positions up in, that of the model first; one where all layers turn alike. */
  tablesFor(maxPosition: number, device: Device): readonly [RotationTable, ...RotationTable[]] {
    const whole = this.#whole.tableFor(maxPosition, device);
    return this.#local === null ? [whole] : [whole, this.#local.tableFor(maxPosition, device)];
  }

  /** Frees the tables; they are made again when they are needed. */
  dispose(): void {
    this.#whole.dispose();
    this.#local?.dispose();
  }
}

/** The angles of one rotation, by position. */
export class RotaryTable {
  readonly #frequencies: Float32Array;
  readonly #scale: number;
  /** The last one is in use. On a GPU those it replaced stay: recorded work may still read them. */
  readonly #tables: RotationTable[] = [];

  constructor(config: RotaryConfig) {
    this.#frequencies = rotaryFrequencies(config);
    this.#scale = "attentionFactor" in config.ropeScaling ? config.ropeScaling.attentionFactor : 1;
  }

  /** The rotation of tokens at these positions. */
  rotationAt(positions_S: Tensor, maxPosition: number): Rotation {
    const { cos_PK, sin_PK } = this.tableFor(maxPosition, positions_S.device);
    return { cos_SK: cos_PK.indexSelect(0, positions_S), sin_SK: sin_PK.indexSelect(0, positions_S) };
  }

  /** Frees its memory; what is needed is made again. */
  dispose(): void {
    for (const { cos_PK, sin_PK } of this.#tables.splice(0)) {
      cos_PK.dispose();
      sin_PK.dispose();
    }
  }

  /** The angles of positions up to this one, and of some behind it. */
  tableFor(maxPosition: number, device: Device): RotationTable {
    const current = this.#tables.at(-1);
    if (current !== undefined && current.cos_PK.size(0) > maxPosition && current.cos_PK.device === device)
      return current;
    // Doubling: a sequence that grows by one token at a time rebuilds the table rarely.
    const size = 2 ** Math.ceil(Math.log2(maxPosition + 1));
    const made = tensorScope(() => {
      // In float32, as the models were trained: at long positions the rounding of the angle is part of the model.
      const positions_P1 = arange(0, size, { dtype: "float32" }).unsqueeze(1);
      const angles_PK = positions_P1.mul(tensor(this.#frequencies, [1, this.#frequencies.length]));
      const scaled = (x_PK: Tensor) => (this.#scale === 1 ? x_PK : x_PK.mul(this.#scale)).toDevice(device);
      return { cos_PK: scaled(angles_PK.cos()), sin_PK: scaled(angles_PK.sin()) };
    });
    if (!device.startsWith("cuda")) this.dispose();
    this.#tables.push(keep(made));
    return made;
  }
}

/** Angle per position of each pair: theta^(-2k/K), changed by the scaling. */
export function rotaryFrequencies({ headSize, ropeTheta, ropeScaling }: RotaryConfig): Float32Array {
  const plain = plainFrequencies(headSize, ropeTheta);
  switch (ropeScaling.type) {
    case "default":
      return plain;
    case "linear":
      return plain.map((frequency) => frequency / ropeScaling.factor);
    case "llama3":
      return plain.map((frequency) => llama3Frequency(frequency, ropeScaling));
    case "yarn": {
      const ramp = yarnRamp(headSize, ropeTheta, ropeScaling);
      return plain.map((frequency, k) => (ramp(k) * frequency) / ropeScaling.factor + (1 - ramp(k)) * frequency);
    }
    case "longrope": {
      const { shortFactors } = ropeScaling;
      if (shortFactors.length !== plain.length) {
        throw new RerollError(
          "INVALID_CONFIG",
          `short_factor of the rope scaling has ${shortFactors.length} numbers for ${plain.length} pairs of a head. There must be one for each.`,
        );
      }
      return plain.map((frequency, k) => frequency / shortFactors[k]!);
    }
  }
}

/** The unscaled frequencies, computed by libtorch in float32, which gives exactly the numbers of Hugging Face. */
function plainFrequencies(headSize: number, theta: number): Float32Array {
  return tensorScope(() => {
    const exponents_K = arange(0, headSize / 2, { dtype: "float32" })
      .mul(2)
      .div(headSize);
    return pow(theta, exponents_K).reciprocal().toFloat32Array();
  });
}

function llama3Frequency(frequency: number, scaling: Extract<RopeScaling, { type: "llama3" }>): number {
  const { factor, lowFreqFactor, highFreqFactor, originalMaxPositions } = scaling;
  const wavelength = (2 * Math.PI) / frequency;
  if (wavelength > originalMaxPositions / lowFreqFactor) return frequency / factor;
  if (wavelength < originalMaxPositions / highFreqFactor) return frequency;
  // Between the two, from scaled to unscaled.
  const blend = (originalMaxPositions / wavelength - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
  return ((1 - blend) * frequency) / factor + blend * frequency;
}

/** The share of scaling for pair k: 0 keeps its frequency, 1 divides it by the factor, linear between the two bounds. */
function yarnRamp(
  headSize: number,
  theta: number,
  { originalMaxPositions, betaFast, betaSlow, isTruncated }: Extract<RopeScaling, { type: "yarn" }>,
): (k: number) => number {
  // The pair that makes this many turns within the original context.
  const pairOf = (turns: number) =>
    (headSize * Math.log(originalMaxPositions / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(isTruncated ? Math.floor(pairOf(betaFast)) : pairOf(betaFast), 0);
  const high = Math.min(isTruncated ? Math.ceil(pairOf(betaSlow)) : pairOf(betaSlow), headSize - 1);
  // Hugging Face's guard against a ramp of no length.
  const length = high === low ? 0.001 : high - low;
  return (k) => Math.min(Math.max((k - low) / length, 0), 1);
}

const pow = op("aten::pow.Scalar");
