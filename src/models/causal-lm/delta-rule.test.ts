import { expect, test } from "vitest";
import { gradients } from "../../torch/autograd.ts";
import { cat, rand, randn, zeros } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type DeltaInputs, deltaRule } from "./delta-rule.ts";

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
    const generator = new Generator(3);
    const unit = (x: Tensor) => x.div(x.square().sum(-1, true).sqrt());
    const trained = (x: Tensor) => {
      const leaf = x.detach();
      leaf.requiresGrad = true;
      return leaf;
    };
    const inputs = {
      q_BHTK: trained(unit(randn([2, 3, T, 5], { generator }))),
      k_BHTK: trained(unit(randn([2, 3, T, 5], { generator }))),
      v_BHTW: trained(randn([2, 3, T, 4], { generator })),
      logDecay_BHT: trained(rand([2, 3, T], { generator }).mul(-0.5)),
      beta_BHT: trained(rand([2, 3, T], { generator })),
    };
    const direction = randn([2, 3, T, 4], { generator });
    const [got, expected] = [deltaRule(inputs), oneByOne(inputs)];
    const gap = (a: Tensor, b: Tensor) => a.sub(b).abs().max().item();
    expect(gap(got, expected)).toBeLessThan(1e-5);
    const leaves = Object.values(inputs);
    const [gotGrads, expectedGrads] = [got, expected].map((out) => gradients([out.mul(direction).sum()], leaves));
    for (const [i, grad] of gotGrads!.entries()) expect(gap(grad!, expectedGrads![i]!)).toBeLessThan(1e-4);
  });
});
