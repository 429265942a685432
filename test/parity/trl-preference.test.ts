import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { crossEntropyLoss } from "../../src/algorithms/losses/cross-entropy.ts";
import { bradleyTerryLoss } from "../../src/algorithms/losses/preference/bradley-terry.ts";
import { type DpoOptions, dpoLoss } from "../../src/algorithms/losses/preference/dpo.ts";
import { ktoLoss } from "../../src/algorithms/losses/preference/kto.ts";
import { orpoLoss } from "../../src/algorithms/losses/preference/orpo.ts";
import { sequenceLogprobs } from "../../src/algorithms/losses/preference/sequence-logprobs.ts";
import { simpoLoss } from "../../src/algorithms/losses/preference/simpo.ts";
import { gradients } from "../../src/torch/autograd.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

interface Case {
  readonly loss: "dpo" | "dpo-per-token" | "kto" | "orpo" | "simpo" | "bradley-terry";
  readonly options: Readonly<Record<string, number>>;
  readonly hasMargins?: boolean;
  readonly trl: {
    readonly loss: number;
    readonly gradient: readonly number[];
    readonly mismatchedGains?: readonly number[];
    readonly baseline?: number;
  };
}

interface Fixture {
  readonly shape: readonly [number, number, number];
  readonly ids: number[];
  readonly replyMask: number[];
  readonly isDesirable: boolean[];
  readonly policyLogits: number[];
  readonly referenceLogits: number[];
  readonly scores: number[];
  readonly margins: number[];
  readonly cases: readonly Case[];
}

const fixture = JSON.parse(readFileSync("fixtures/trl/preference.json", "utf8")) as Fixture;
const [numRows, length, vocabulary] = fixture.shape;
const numPairs = numRows / 2;
const float64 = { dtype: "float64" } as const;

test.each(fixture.cases.map((one) => [`${one.loss} ${JSON.stringify(one.options)}`, one] as const))(
  "%s has the loss and the gradient of TRL",
  (_, one) => {
    const { loss, gradient } = tensorScope(() => {
      const { leaf, loss } = one.loss === "bradley-terry" ? rewardModelLoss(one) : policyLoss(one);
      return { loss: loss.item(), gradient: gradients([loss], [leaf])[0]!.flatten().toArray() };
    });
    expect(Math.abs(loss - one.trl.loss)).toBeLessThan(1e-6);
    expect(one.trl.gradient.some((value) => Math.abs(value) > 1e-3)).toBe(true);
    expect(Math.max(...gradient.map((value, i) => Math.abs(value - one.trl.gradient[i]!)))).toBeLessThan(1e-6);
  },
);

test("the cases of KTO have one baseline above 0 and one held at 0", () => {
  const baselines = fixture.cases.filter(({ loss }) => loss === "kto").map(({ trl }) => trl.baseline!);
  expect(baselines.map((value) => value > 0)).toEqual([false, true]);
});

function rewardModelLoss({ options, hasMargins }: Case) {
  const leaf = trained(tensor(fixture.scores, float64));
  const [chosenScores_B, rejectedScores_B] = halves(leaf);
  const margins_B = tensor(fixture.margins, float64);
  const inputs = { chosenScores_B, rejectedScores_B, ...(hasMargins && { margins_B }) };
  return { leaf, loss: bradleyTerryLoss(inputs, options).loss_B.mean() };
}

function policyLoss({ loss, options, trl }: Case) {
  const leaf = trained(tensor(fixture.policyLogits, float64).view(...fixture.shape));
  const mask_BT = tensor(fixture.replyMask)
    .view(numRows, length)
    .narrow(1, 1, length - 1)
    .ne(0);
  const logprobs_BT = logprobsOf(leaf);
  const { beta, margin } = options as { beta: number; margin: number };
  const isPerToken = loss !== "dpo" && loss !== "kto";
  const policyLogprobs_B = sequenceLogprobs(logprobs_BT, mask_BT, { isPerToken });
  const reference_BT = logprobsOf(tensor(fixture.referenceLogits, float64).view(...fixture.shape));
  const referenceLogprobs_B = sequenceLogprobs(reference_BT, mask_BT, { isPerToken });
  const [chosenLogprobs_B, rejectedLogprobs_B] = halves(policyLogprobs_B);
  const [chosenReference_B, rejectedReference_B] = halves(referenceLogprobs_B);
  const reduced = (): Tensor => {
    switch (loss) {
      case "kto": {
        const gains = trl.mismatchedGains!;
        const mismatchedGain = gains.reduce((sum, gain) => sum + gain, 0) / gains.length;
        const isDesirable_B = tensor(fixture.isDesirable.map(Number)).ne(0);
        const inputs = { policyLogprobs_B, referenceLogprobs_B, isDesirable_B, mismatchedGain };
        return ktoLoss(inputs, { ...options, beta }).loss_B.mean();
      }
      case "orpo": {
        const chosen_BT = logprobs_BT.narrow(0, 0, numPairs);
        const chosenMask_BT = mask_BT.narrow(0, 0, numPairs);
        const { loss_BT } = crossEntropyLoss({ policyLogprobs_BT: chosen_BT, lossMask_BT: chosenMask_BT });
        const nll = loss_BT.sum().div(chosenMask_BT.sum().item());
        return nll.add(orpoLoss({ chosenLogprobs_B, rejectedLogprobs_B }, { beta }).loss_B.mean());
      }
      case "simpo":
        return simpoLoss({ chosenLogprobs_B, rejectedLogprobs_B }, { beta, margin }).loss_B.mean();
      default:
        return dpoLoss(
          {
            chosen: { policyLogprobs_B: chosenLogprobs_B, referenceLogprobs_B: chosenReference_B },
            rejected: { policyLogprobs_B: rejectedLogprobs_B, referenceLogprobs_B: rejectedReference_B },
          },
          options as unknown as DpoOptions,
        ).loss_B.mean();
    }
  };
  return { leaf, loss: reduced() };
}

function logprobsOf(logits: Tensor): Tensor {
  const targets = tensor(fixture.ids)
    .view(numRows, length)
    .narrow(1, 1, length - 1)
    .to("int64")
    .unsqueeze(2);
  expect(logits.size(2)).toBe(vocabulary);
  return logits
    .narrow(1, 0, length - 1)
    .logSoftmax(2)
    .gather(2, targets)
    .squeeze(2);
}

function halves(values_B: Tensor): [chosen: Tensor, rejected: Tensor] {
  return [values_B.narrow(0, 0, numPairs), values_B.narrow(0, numPairs, numPairs)];
}

function trained(leaf: Tensor): Tensor {
  leaf.requiresGrad = true;
  return leaf;
}
