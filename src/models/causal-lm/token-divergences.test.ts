import { describe, expect, test } from "vitest";
import { gradients } from "../../torch/autograd.ts";
import { randn, tensor } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type Divergence, tokenDivergences } from "./token-divergences.ts";

/** The same by whole tensors and autograd. */
function whole(policy_SV: Tensor, teacher_SV: Tensor, divergence: Divergence): Tensor {
  const p = policy_SV.logSoftmax(1);
  const t = teacher_SV.logSoftmax(1);
  const kl = (of: Tensor, to: Tensor) => of.exp().mul(of.sub(to)).sum(1);
  const mean = p.exp().add(t.exp()).div(2).log();
  if (divergence === "forward") return kl(t, p);
  return divergence === "reverse" ? kl(p, t) : kl(p, mean).add(kl(t, mean)).div(2);
}

describe("tokenDivergences", () => {
  test.each(["forward", "reverse", "jsd"] as const)(
    "%s and its gradients equal those of whole tensors, in any chunks",
    (divergence) =>
      tensorScope(() => {
        const generator = new Generator(3);
        const hidden_SD = randn([7, 5], { generator });
        const head_VD = randn([11, 5], { generator });
        hidden_SD.requiresGrad = true;
        head_VD.requiresGrad = true;
        // A wider teacher, whose vocabulary is padded.
        const teacher = {
          hidden_SD: randn([7, 6], { generator }),
          head_VD: randn([16, 6], { generator }),
          softCap: 1.5,
        };
        const weights_S = randn([7], { generator });
        const temperature = 0.7;
        const expected_S = whole(
          hidden_SD.mm(head_VD.t()).div(2).tanh().mul(2).div(temperature),
          teacher.hidden_SD
            .mm(teacher.head_VD.narrow(0, 0, 11).t())
            .div(1.5)
            .tanh()
            .mul(1.5)
            .div(temperature),
          divergence,
        );
        const expected = gradients([expected_S.mul(weights_S).sum()], [hidden_SD, head_VD]);
        for (const chunkTokens of [2, 7]) {
          const values_S = tokenDivergences({ hidden_SD, head_VD, softCap: 2 }, teacher, {
            divergence,
            temperature,
            chunkTokens,
          });
          const got = gradients([values_S.mul(weights_S).sum()], [hidden_SD, head_VD]);
          expect(values_S.sub(expected_S).abs().max().item()).toBeLessThan(1e-5);
          for (const [i, gradient] of got.entries()) {
            expect(gradient!.sub(expected[i]!).abs().max().item()).toBeLessThan(1e-5);
          }
        }
      }),
  );

  test("the divergences of a fair coin and one that lands heads a quarter of the time are those worked out by hand", () =>
    tensorScope(() => {
      // One hidden number 1, so that the head holds the scores.
      const policy = { hidden_SD: tensor([[1]]), head_VD: tensor([[0], [0]]), softCap: null };
      const teacher = { hidden_SD: tensor([[1]]), head_VD: tensor([[0], [Math.log(3)]]), softCap: null };
      const of = (divergence: Divergence) => tokenDivergences(policy, teacher, { divergence }).item();
      expect(of("reverse")).toBeCloseTo(0.5 * Math.log(2) + 0.5 * Math.log(2 / 3), 6);
      expect(of("forward")).toBeCloseTo(0.25 * Math.log(1 / 2) + 0.75 * Math.log(3 / 2), 6);
      const halves = [0.5, 0.5, 0.25, 0.75].map((p, i) => p * Math.log(p / [0.375, 0.625][i % 2]!));
      expect(of("jsd")).toBeCloseTo(halves.reduce((sum, term) => sum + term) / 2, 6);
    }));
});
