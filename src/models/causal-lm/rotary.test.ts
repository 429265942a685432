import { describe, expect, test } from "vitest";
import { tinyConfig } from "../../testing/tiny-model.ts";
import { inferenceMode, noGrad } from "../../torch/autograd.ts";
import { arange, tensor } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { RopeScaling } from "./rope-scaling.ts";
import { ModelRotary, RotaryTable, rotaryFrequencies } from "./rotary.ts";

const plain = { type: "default" } as const;
const yarn = {
  type: "yarn",
  factor: 4,
  originalMaxPositions: 64,
  betaFast: 32,
  betaSlow: 1,
  attentionFactor: 1.5,
  isTruncated: true,
} as const;

function frequencies(headSize: number, ropeTheta: number, ropeScaling: RopeScaling): number[] {
  return Array.from(rotaryFrequencies({ headSize, ropeTheta, ropeScaling }));
}

function expectNear(got: readonly number[], expected: readonly number[]): void {
  expect(got).toHaveLength(expected.length);
  for (const [i, value] of expected.entries()) expect(Math.abs(got[i]! / value - 1)).toBeLessThan(3e-7);
}

describe("worked out by hand", () => {
  test("pair k turns theta^(-2k/K) per position", () => {
    expectNear(frequencies(8, 10_000, plain), [1, 0.1, 0.01, 0.001]);
  });

  test("linear scaling divides every frequency", () => {
    expectNear(frequencies(8, 10_000, { type: "linear", factor: 4 }), [0.25, 0.025, 0.0025, 0.00025]);
  });

  test("llama3 scaling keeps short waves, divides long ones and blends between", () => {
    // Waves of 6.3, 63, 628 and 6283 positions; kept below 128 / 4, divided above 128 / 1.
    const scaling = {
      type: "llama3",
      factor: 8,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalMaxPositions: 128,
    } as const;
    const blend = (128 / (20 * Math.PI) - 1) / 3;
    expectNear(frequencies(8, 10_000, scaling), [1, 0.1 * ((1 - blend) / 8 + blend), 0.01 / 8, 0.001 / 8]);
  });

  test("yarn scaling ramps from the pair that turns 32 times to the one that turns once", () => {
    // 8 ln(64 / (turns 2 pi)) / (2 ln 10000) is -0.497 and 1.008 for 32 turns and 1, so the ramp goes from 0 to 2.
    expectNear(frequencies(8, 10_000, yarn), [1, 0.1 * (0.5 / 4 + 0.5), 0.01 / 4, 0.001 / 4]);
  });

  test("yarn without truncation ends its ramp between pairs", () => {
    const ramp = 1 / ((8 * Math.log(64 / (2 * Math.PI))) / (2 * Math.log(10_000)));
    expectNear(frequencies(8, 10_000, { ...yarn, isTruncated: false }), [
      1,
      0.1 * (ramp / 4 + 1 - ramp),
      0.01 / 4,
      0.001 / 4,
    ]);
  });
});

// transformers 5.17: inv_freq of these configs, at pairs 0, 1, 16, 24, 32, 36, 48 and 63.
test.each<[string, number, RopeScaling, readonly number[]]>([
  [
    "Qwen2.5",
    1e6,
    plain,
    [
      1, 0.8058422207832336, 0.03162277862429619, 0.005623413249850273, 0.0010000000474974513, 0.00042169648804701865,
      3.162277425872162e-5, 1.2409377632138785e-6,
    ],
  ],
  [
    "Qwen2.5 with YaRN",
    1e6,
    { ...yarn, originalMaxPositions: 32_768 },
    [
      1, 0.8058422207832336, 0.03162277862429619, 0.005375321488827467, 0.0006029411451891065, 0.0001798411540221423,
      7.905693564680405e-6, 3.102344408034696e-7,
    ],
  ],
  [
    "Llama 3.1",
    5e5,
    { type: "llama3", factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 8192 },
    [
      1, 0.8146172165870667, 0.03760603070259094, 0.00729266507551074, 0.0005248460220173001, 7.784655463183299e-5,
      6.647869668086059e-6, 3.068925877869333e-7,
    ],
  ],
])("the frequencies of %s are those of Hugging Face", (_, theta, scaling, expected) => {
  const got = frequencies(128, theta, scaling);
  expectNear(
    [0, 1, 16, 24, 32, 36, 48, 63].map((k) => got[k]!),
    expected,
  );
});

describe("the table", () => {
  test("gives each token the angle of its position, times the factor of yarn", () => {
    const table = new RotaryTable({ headSize: 4, ropeTheta: 100, ropeScaling: plain });
    const stretched = new RotaryTable({ headSize: 4, ropeTheta: 100, ropeScaling: { ...yarn, factor: 1 } });
    tensorScope(() => {
      const positions_S = tensor([3, 0, 7], { dtype: "int64" });
      const angles = [3, 0.3, 0, 0, 7, 0.7];
      const { cos_SK, sin_SK } = table.rotationAt(positions_S, 7);
      cos_SK.toArray().forEach((value, i) => void expect(value).toBeCloseTo(Math.cos(angles[i]!), 6));
      sin_SK.toArray().forEach((value, i) => void expect(value).toBeCloseTo(Math.sin(angles[i]!), 6));
      const scaled = stretched.rotationAt(positions_S, 7);
      scaled.cos_SK.toArray().forEach((value, i) => void expect(value).toBeCloseTo(1.5 * Math.cos(angles[i]!), 6));
    });
    table.dispose();
    stretched.dispose();
  });

  test("grows without keeping what it replaces, and frees itself", () => {
    const table = new RotaryTable({ headSize: 4, ropeTheta: 100, ropeScaling: plain });
    const before = memoryStats();
    const last = (position: number) =>
      tensorScope(() => table.rotationAt(arange(position, position + 1), position).sin_SK.toArray()[0]);
    for (const position of [3, 40, 5]) {
      expect(last(position)).toBeCloseTo(Math.sin(position), 5);
      expect(memoryStats().liveTensors - before.liveTensors).toBe(2);
    }
    table.dispose();
    expect(memoryStats().liveBytes).toBe(before.liveBytes);
  });

  test("made in inference mode serves training", () => {
    const table = new RotaryTable({ headSize: 4, ropeTheta: 100, ropeScaling: plain });
    tensorScope(() => {
      inferenceMode(() => void table.rotationAt(arange(0, 4), 3));
      const { cos_SK } = noGrad(() => table.rotationAt(arange(0, 4), 3));
      const x = tensor([1, 2]);
      x.requiresGrad = true;
      cos_SK.mul(x).sum().backward();
      expect(x.grad!.toArray()[0]).toBeCloseTo(1 + Math.cos(1) + Math.cos(2) + Math.cos(3), 5);
    });
    table.dispose();
  });

  test("a model whose layers with a window turn by another angle has two tables, others one", () => {
    const tables = (family: "llama" | "gemma3_text") => {
      const config = tinyConfig(family);
      const rotary = new ModelRotary({ ...config, headSize: 4, ropeTheta: 10000, ropeScaling: plain });
      const sines = tensorScope(() =>
        rotary.tablesFor(3, "cpu").map(({ sin_PK }) => sin_PK.select(0, 3).select(0, 1).item()),
      );
      rotary.dispose();
      return { sines, localTheta: config.features.localRopeTheta };
    };
    // The second pair of four dimensions turns by position / sqrt(theta).
    expect(tables("llama").sines).toEqual([expect.closeTo(Math.sin(0.03), 5)]);
    const { sines, localTheta } = tables("gemma3_text");
    expect(sines).toEqual(
      [Math.sin(0.03), Math.sin(3 / Math.sqrt(localTheta!))].map((sine) => expect.closeTo(sine, 5)),
    );
  });
});
