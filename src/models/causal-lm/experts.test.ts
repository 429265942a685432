import { describe, expect, test } from "vitest";
import { gradients, noGrad } from "../../torch/autograd.ts";
import { randn, stack, zerosLike } from "../../torch/create.ts";
import { memoryStats, resetPeakMemory } from "../../torch/memory.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { Experts } from "./experts.ts";

const width = 6;

/** Experts without biases, a clamped gate or a shared one. */
const plain = { hasBias: false, clampedGate: null, sharedWidth: null } as const;

function randomExperts(numExperts: number, numActive: number, normalizeWeights: boolean, seed = 1): Experts {
  const generator = new Generator(seed);
  const experts = new Experts(width, { numExperts, numActive, width: 4, normalizeWeights, ...plain }, {});
  noGrad(() => {
    for (const parameter of experts.parameters()) parameter.copy_(randn(parameter.shape, { generator }));
  });
  return experts;
}

/** Every expert on every token, weighted by a table that is zero for the experts that are not chosen. */
function dense(experts: Experts, x_SD: Tensor, numActive: number, normalizeWeights: boolean): Tensor {
  const probabilities = x_SD.matmul(experts.router.t()).softmax(-1);
  const [top, chosen] = probabilities.topk(numActive);
  const weights = normalizeWeights ? top.div(top.sum(-1, true)) : top;
  const table = zerosLike(probabilities).scatter(1, chosen, weights);
  const outputs = Array.from({ length: experts.router.size(0) }, (_, e) => {
    const [gate, up] = x_SD.matmul(experts.gateUp.select(0, e).t()).chunk(2, -1);
    return gate!.silu().mul(up!).matmul(experts.down.select(0, e).t());
  });
  return stack(outputs, 1).mul(table.unsqueeze(2)).sum(1);
}

function maxDifference(a: Tensor, b: Tensor): number {
  return a.sub(b).abs().max().item();
}

describe.each([true, false])("with normalizeWeights %s", (normalizeWeights) => {
  test.each([
    [5, 2, 17],
    [4, 4, 3],
    [8, 1, 1],
    [6, 3, 2],
  ])("%i experts, %i active, %i tokens: output and gradients equal every expert on every token", (total, active, S) => {
    const experts = randomExperts(total, active, normalizeWeights);
    tensorScope(() => {
      const generator = new Generator(2);
      const x_SD = randn([S, width], { generator });
      const direction = randn([S, width], { generator });
      x_SD.requiresGrad = true;
      const leaves = [x_SD, ...experts.parameters()];
      const got = experts.forward(x_SD);
      const expected = dense(experts, x_SD, active, normalizeWeights);
      expect(maxDifference(got, expected)).toBeLessThan(2e-5);
      const gotGrads = gradients([got], leaves, { gradOutputs: [direction] });
      const expectedGrads = gradients([expected], leaves, { gradOutputs: [direction] });
      gotGrads.forEach((grad, i) => void expect(maxDifference(grad!, expectedGrads[i]!)).toBeLessThan(5e-5));
    });
    experts.dispose();
  });
});

test.each([
  ["few tokens", 9, 2],
  ["more tokens than experts", 4, 7],
])("%s: shapes that do not depend on the routing give what the sorted tokens give", (_, numExperts, S) => {
  const shape = { numExperts, numActive: 2, width: 4, normalizeWeights: true };
  const clamped = { limit: 0.5, alpha: 1.7 };
  for (const kind of [plain, { hasBias: true, clampedGate: clamped }]) {
    const experts = new Experts(width, { ...plain, ...shape, ...kind, sharedWidth: kind === plain ? 3 : null }, {});
    const generator = new Generator(4);
    noGrad(() => {
      for (const parameter of experts.parameters()) parameter.copy_(randn(parameter.shape, { generator }));
    });
    tensorScope(() => {
      const x_SD = randn([S, width], { generator });
      expect(maxDifference(experts.forwardFixed(x_SD), experts.forward(x_SD))).toBeLessThan(2e-5);
    });
    experts.dispose();
  }
});

test("two experts by hand: unnormalized weights are the plain probabilities", () => {
  const experts = new Experts(1, { numExperts: 2, numActive: 1, width: 1, normalizeWeights: false, ...plain }, {});
  tensorScope(() => {
    noGrad(() => {
      experts.router.writeFrom(Float32Array.of(0, Math.log(3)));
      experts.gateUp.writeFrom(Float32Array.of(1, 1, 1, 2));
      experts.down.writeFrom(Float32Array.of(1, 5));
    });
    const x = randn([1, 1]).zero_().add(1);
    // Expert 1 has probability 3/4: silu(1) * 2 * 5 * 3/4.
    expect(experts.forward(x).item()).toBeCloseTo((1 / (1 + Math.exp(-1))) * 2 * 5 * 0.75, 5);
  });
  experts.dispose();
});

test("memory follows the active experts of the tokens, not the number of experts", () => {
  const experts = new Experts(128, { numExperts: 64, numActive: 1, width: 4, normalizeWeights: true, ...plain }, {});
  noGrad(() => experts.parameters().forEach((parameter) => void parameter.copy_(randn(parameter.shape))));
  const x_SD = randn([512, 128]);
  const { liveBytes } = memoryStats();
  resetPeakMemory();
  tensorScope(() => experts.forward(x_SD).sum().backward());
  // x is 256 KiB: a copy of the output per expert would be 16 MiB.
  expect(memoryStats().peakBytes - liveBytes).toBeLessThan(4e6);
  experts.dispose();
  x_SD.dispose();
});
