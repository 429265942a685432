import { expect, test } from "vitest";
import { randn, tensor, zeros } from "../create.ts";
import { memoryStats } from "../memory.ts";
import { MLP } from "../nn/mlp.ts";
import { Parameter } from "../nn/module.ts";
import { Generator } from "../random.ts";
import { keep, tensorScope } from "../scope.ts";
import { AdamW } from "./adamw.ts";
import type { MomentFormat } from "./moment.ts";

/** Trains a small network to copy a fixed one; the loss of every step. */
function learn(moments: MomentFormat, steps: number): number[] {
  const generator = new Generator(1);
  const [student, teacher] = [1, 2].map((seed) => {
    const own = new Generator(seed);
    const mlp = new MLP({ widths: [16, 288, 16], activation: "tanh", generator: own });
    own.dispose();
    return mlp;
  });
  const optimizer = new AdamW(student!.namedParameters(), { lr: 3e-3, moments });
  const losses = Array.from({ length: steps }, () =>
    tensorScope(() => {
      const inputs = randn([64, 16], { generator });
      const loss = student!.forward(inputs).sub(teacher!.forward(inputs).detach()).square().mean();
      optimizer.zeroGrad();
      loss.backward();
      optimizer.step();
      return loss.item();
    }),
  );
  for (const one of [student!, teacher!, optimizer, generator]) one.dispose();
  return losses;
}

test("a network learns with moments of 16 and of 8 bits as it does with full ones", () => {
  const last = (losses: readonly number[]) => losses.slice(-20).reduce((sum, loss) => sum + loss, 0) / 20;
  const full = learn("full", 150);
  expect(last(full)).toBeLessThan(full[0]! / 10);
  for (const format of ["bfloat16", "8-bit"] as const) {
    const losses = learn(format, 150);
    expect(losses[0]).toBe(full[0]);
    expect(Math.abs(last(losses) / last(full) - 1)).toBeLessThan(0.05);
  }
});

test("gradients of very different size beside each other take steps of the learning rate, as with full moments", () =>
  tensorScope(() => {
    const sizes = Float32Array.from({ length: 8192 }, (_, i) => 10 ** -(i % 8));
    const steps = (moments: MomentFormat) => {
      const parameter = new Parameter(keep(zeros([8192])));
      const optimizer = new AdamW(new Map([["w", parameter]]), { lr: 1e-3, eps: 1e-12, weightDecay: 0, moments });
      for (let i = 0; i < 3; i++) {
        parameter.grad = keep(tensor(sizes, [8192]));
        optimizer.step();
      }
      return parameter.toArray();
    };
    const [full, coded] = [steps("full"), steps("8-bit")];
    for (const [i, value] of coded.entries()) {
      // No step is longer than that of full moments; down to a millionth of the largest gradient it is the same within the codes.
      expect(Math.abs(value)).toBeLessThan(Math.abs(full[i]!) * 1.05);
      if (i % 8 < 5) expect(Math.abs(value / full[i]! - 1)).toBeLessThan(0.1);
    }
  }));

/** A parameter and its optimizer, after some steps with gradients that follow from the seed. */
function trained(moments: MomentFormat) {
  const generator = new Generator(3);
  const parameter = new Parameter(keep(randn([100, 300], { generator })));
  const optimizer = new AdamW(new Map([["w", parameter]]), { lr: 0.01, moments });
  const step = (seed: number) => {
    const own = new Generator(seed);
    parameter.grad = keep(randn([100, 300], { generator: own }));
    own.dispose();
    optimizer.step();
    optimizer.zeroGrad();
  };
  generator.dispose();
  return { parameter, optimizer, step };
}

test.each([
  ["full", 8 * 30_000],
  ["bfloat16", 4 * 30_000],
  // A byte each, and a scale for every 256 of them.
  ["8-bit", 2 * (30_000 + 4 * 118)],
] as const)("moments kept as %s take %i bytes for 30,000 parameters", (format, bytes) => {
  const { optimizer, step } = trained(format);
  step(1);
  const before = memoryStats().liveBytes;
  optimizer.dispose();
  // The allocator rounds each of them up.
  expect(before - memoryStats().liveBytes - bytes).toBeGreaterThanOrEqual(0);
  expect(before - memoryStats().liveBytes - bytes).toBeLessThan(128);
});

test.each(["bfloat16", "8-bit"] as const)("a saved state of %s moments goes on to the bit", (format) => {
  const one = trained(format);
  for (const seed of [1, 2]) one.step(seed);
  const other = trained(format);
  other.parameter.detach().copy_(one.parameter.detach());
  other.optimizer.loadStateDict(one.optimizer.stateDict());
  for (const { step } of [one, other]) step(9);
  expect(other.parameter.toArray()).toEqual(one.parameter.toArray());
});

test("codes are not loaded as numbers, nor numbers as codes", () => {
  const [full, coded] = [trained("full"), trained("8-bit")];
  for (const { step } of [full, coded]) step(1);
  expect(() => coded.optimizer.loadStateDict(full.optimizer.stateDict())).toThrow(
    'The optimizer\'s state has "firstMoment.w" as float32, and the optimizer keeps it as uint8.',
  );
  expect(() => full.optimizer.loadStateDict(coded.optimizer.stateDict())).toThrow('has "firstMomentScale.w"');
});
