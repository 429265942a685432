import { expect, test } from "vitest";
import { gradients } from "../../torch/autograd.ts";
import { cat, rand, randn, zeros } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type DeltaInputs, deltaRule, deltaStep } from "./delta-rule.ts";

const generator = new Generator(3);
const unit = (x: Tensor) => x.div(x.square().sum(-1, true).sqrt());
const gap = (a: Tensor, b: Tensor) => a.sub(b).abs().max().item();

function someInputs(T: number) {
  return {
    q_BHTK: unit(randn([2, 3, T, 5], { generator })),
    k_BHTK: unit(randn([2, 3, T, 5], { generator })),
    v_BHTW: randn([2, 3, T, 4], { generator }),
    logDecay_BHT: rand([2, 3, T], { generator }).mul(-0.5),
    beta_BHT: rand([2, 3, T], { generator }),
  };
}

/** The rule as it is defined, a token at a time. */
function oneByOne({ q_BHTK, k_BHTK, v_BHTW, logDecay_BHT, beta_BHT }: DeltaInputs): Tensor {
  const [B, H, T, K] = k_BHTK.shape as [number, number, number, number];
  let memory = zeros([B, H, K, v_BHTW.size(3)]);
  const outputs = Array.from({ length: T }, (_, t) => {
    const at = (x: Tensor) => x.narrow(2, t, 1);
    memory = memory.mul(at(logDecay_BHT).exp().unsqueeze(-1));
    const wrong = at(v_BHTW).sub(at(k_BHTK).matmul(memory)).mul(at(beta_BHT).unsqueeze(-1));
    memory = memory.add(at(k_BHTK).transpose(2, 3).matmul(wrong));
    return at(q_BHTK).matmul(memory);
  });
  return cat(outputs, 2);
}

test.each([1, 5, 64, 65, 150])("%i tokens in chunks read what they read one by one, with the same gradients", (T) => {
  tensorScope(() => {
    const trained = (x: Tensor) => {
      const leaf = x.detach();
      leaf.requiresGrad = true;
      return leaf;
    };
    const { q_BHTK, k_BHTK, v_BHTW, logDecay_BHT, beta_BHT } = someInputs(T);
    const inputs = {
      q_BHTK: trained(q_BHTK),
      k_BHTK: trained(k_BHTK),
      v_BHTW: trained(v_BHTW),
      logDecay_BHT: trained(logDecay_BHT),
      beta_BHT: trained(beta_BHT),
    };
    const direction = randn([2, 3, T, 4], { generator });
    const [got, expected] = [deltaRule(inputs).read_BHTW, oneByOne(inputs)];
    expect(gap(got, expected)).toBeLessThan(1e-5);
    const leaves = Object.values(inputs);
    const [gotGrads, expectedGrads] = [got, expected].map((out) => gradients([out.mul(direction).sum()], leaves));
    for (const [i, grad] of gotGrads!.entries()) expect(gap(grad!, expectedGrads![i]!)).toBeLessThan(1e-4);
  });
});

test("tokens that are cut in two, the second half one by one, read what they read at once and leave the same memory", () => {
  tensorScope(() => {
    const inputs = someInputs(70);
    const part = (first: number, length: number): DeltaInputs => ({
      q_BHTK: inputs.q_BHTK.narrow(2, first, length),
      k_BHTK: inputs.k_BHTK.narrow(2, first, length),
      v_BHTW: inputs.v_BHTW.narrow(2, first, length),
      logDecay_BHT: inputs.logDecay_BHT.narrow(2, first, length),
      beta_BHT: inputs.beta_BHT.narrow(2, first, length),
    });
    const whole = deltaRule(inputs);
    let { read_BHTW, memory_BHKW } = deltaRule(part(0, 66));
    const reads = [read_BHTW];
    for (let t = 66; t < 70; t++) {
      ({ read_BHTW, memory_BHKW } = deltaStep(part(t, 1), memory_BHKW));
      reads.push(read_BHTW);
    }
    expect(gap(cat(reads, 2), whole.read_BHTW)).toBeLessThan(1e-5);
    expect(gap(memory_BHKW, whole.memory_BHKW)).toBeLessThan(1e-5);
  });
});

test("tokens that forget nearly everything read what they read one by one", () => {
  tensorScope(() => {
    const inputs = { ...someInputs(64), logDecay_BHT: rand([2, 3, 64], { generator }).mul(-12) };
    expect(gap(deltaRule(inputs).read_BHTW, oneByOne(inputs))).toBeLessThan(1e-6);
  });
});
