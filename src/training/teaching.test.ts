/** What a step with teachers adds to the gradient, against the same by whole tensors and autograd. */
import { describe, expect, test } from "vitest";
import { buildRecipe } from "../algorithms/recipes/table.ts";
import type { Lesson, RowTeacher, TokenSample } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { createPreset } from "../models/causal-lm/presets.ts";
import { packedLayout } from "../models/causal-lm/token-layout.ts";
import { gradients, noGrad } from "../torch/autograd.ts";
import { tensor } from "../torch/create.ts";
import { AdamW } from "../torch/optim/adamw.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { constantRate } from "../torch/optim/schedule.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { LessonOptions } from "./lessons.ts";
import type { TeachingParts } from "./teaching.ts";
import { TokenTrainer } from "./token-trainer.ts";

const vocabSize = 12;
const prompt = [1, 2, 3];
const reply = [4, 5, 6, 7];
const reward = 0.5;

function sampleOf(teacher: RowTeacher | undefined): TokenSample {
  const tokenIds = Int32Array.from([...prompt, ...reply]);
  const place = { group: 0, trajectory: 0, turn: 0, stateKey: "s", isTruncated: false };
  return {
    tokenIds,
    lossMask: new Uint8Array(tokenIds.length).fill(1, prompt.length),
    samplerLogprobs: new Float32Array(tokenIds.length).fill(-2, prompt.length),
    versions: new Int32Array(tokenIds.length),
    rewards: new Float32Array(tokenIds.length).fill(reward, tokenIds.length - 1),
    ...place,
    ...(teacher && { teacher }),
  };
}

/** The gradient of one step with reinforce, whose loss is -(A + ...) log p, the mean over tokens, with ratio 1. */
async function gradientOf(
  model: CausalLm,
  parts: { readonly teaching?: TeachingParts; readonly lessons?: LessonOptions },
  batch: { readonly samples: readonly TokenSample[]; readonly lessons?: readonly Lesson[] },
): Promise<number[]> {
  const real = new AdamW(model.namedParameters(), { lr: 1e-3 });
  let seen: number[] = [];
  const step = () => {
    seen = flat([...model.parameters()].map((parameter) => parameter.grad!));
  };
  // A spy in place of the update.
  const optimizer = new Proxy(real, {
    get: (target, name) => {
      const value = name === "step" ? step : Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  }) as Optimizer;
  const trainer = new TokenTrainer({
    ...{ model, optimizer, schedule: constantRate(), reference: null, critic: null, ...parts },
    recipe: buildRecipe({ type: "reinforce" }),
    options: {
      ...{ temperature: 1, maxTokensPerMicrobatch: 64, minibatchTrajectories: 0, recompute: false, seed: 1 },
      maxGradNorm: 1e9,
    },
  });
  await trainer.step({ ...batch, version: 0 });
  return seen;
}

function flat(tensors: readonly Tensor[]): number[] {
  return tensorScope(() => tensors.flatMap((one) => one.detach().reshape(-1).toArray()));
}

/** Log-probs of all tokens in front of each token of the reply, [4, V]. */
function logprobsOf(model: CausalLm, before: readonly number[]): Tensor {
  const ids = [...before, ...reply];
  const hidden_SD = model.forward(tensor(ids, { dtype: "int64" }), packedLayout([ids.length]));
  return model.logits(hidden_SD.narrow(0, before.length - 1, reply.length)).logSoftmax(1);
}

function chosen(logprobs_SV: Tensor): Tensor {
  return logprobs_SV.gather(1, tensor(reply, { dtype: "int64" }).unsqueeze(1)).squeeze(1);
}

function expectClose(got: readonly number[], wanted: readonly number[]): void {
  const size = Math.max(...wanted.map(Math.abs));
  const gap = Math.max(...got.map((value, i) => Math.abs(value - wanted[i]!)));
  expect(size).toBeGreaterThan(0.01);
  expect(gap).toBeLessThan(1e-5 * Math.max(1, size));
}

describe.each([
  { name: "the same prompt", promptIds: undefined },
  { name: "a longer prompt", promptIds: Int32Array.of(9, 8, 1, 2, 3) },
])("a teacher that reads $name", ({ promptIds }) => {
  const seen = [...(promptIds ?? prompt)];
  const row = sampleOf({ name: "wise", ...(promptIds && { promptIds }) });

  test.each([true, false])(
    "adds c (log teacher - log policy) to the advantages, rewards beside it: %s",
    async (keepsRewards) => {
      const [model, teacher] = [createPreset("nano", vocabSize, 1), createPreset("nano", vocabSize, 2)];
      const teaching = { form: "advantage", divergence: "reverse", coefficient: 0.7, keepsRewards } as const;
      const got = await gradientOf(
        model,
        { teaching: { ...teaching, teachers: new Map([["wise", teacher]]) } },
        { samples: [row] },
      );
      const wanted = tensorScope(() => {
        const policy_S = chosen(logprobsOf(model, prompt));
        const gap_S = noGrad(() => chosen(logprobsOf(teacher, seen)).sub(policy_S.detach())).mul(0.7);
        // Reinforce pays every token what is still to come.
        const advantages_S = keepsRewards ? gap_S.add(reward) : gap_S;
        return flat(gradients([policy_S.mul(advantages_S).mean().neg()], [...model.parameters()]).map((one) => one!));
      });
      expectClose(got, wanted);
    },
  );

  test.each(["forward", "reverse", "jsd"] as const)(
    "adds c times the %s divergence to the loss",
    async (divergence) => {
      const [model, teacher] = [createPreset("nano", vocabSize, 1), createPreset("nano", vocabSize + 4, 2)];
      const teaching = { form: "full", divergence, coefficient: 0.7, keepsRewards: true } as const;
      const got = await gradientOf(
        model,
        { teaching: { ...teaching, teachers: new Map([["wise", teacher]]) } },
        { samples: [row] },
      );
      const wanted = tensorScope(() => {
        const p = logprobsOf(model, prompt);
        // The teacher's vocabulary is padded by four.
        const t = noGrad(() => logprobsOf(teacher, seen).narrow(1, 0, vocabSize).logSoftmax(1));
        const kl = (of: Tensor, to: Tensor) => of.exp().mul(of.sub(to)).sum(1);
        const mean = p.exp().add(t.exp()).div(2).log();
        const apart = { forward: kl(t, p), reverse: kl(p, t), jsd: kl(p, mean).add(kl(t, mean)).div(2) }[divergence];
        const loss = chosen(p).mul(reward).neg().add(apart.mul(0.7)).mean();
        return flat(gradients([loss], [...model.parameters()]).map((one) => one!));
      });
      expectClose(got, wanted);
    },
  );
});

test("a row that brings a server's log-probs is taught by them, and one without a teacher by its reward alone", async () => {
  const model = createPreset("nano", vocabSize, 1);
  const logprobs = Float32Array.of(0, 0, 0, -1, -0.5, -3, -2);
  const teaching = {
    ...({ form: "advantage", divergence: "reverse", coefficient: 1, keepsRewards: true } as const),
    teachers: new Map(),
  };
  const told = await gradientOf(model, { teaching }, { samples: [sampleOf({ name: "far", logprobs })] });
  const untaught = await gradientOf(model, { teaching }, { samples: [sampleOf(undefined)] });
  const gradientWith = (gap: (policy_S: Tensor) => Tensor) =>
    tensorScope(() => {
      const policy_S = chosen(logprobsOf(model, prompt));
      const loss = policy_S.mul(gap(policy_S.detach()).add(reward)).mean().neg();
      return flat(gradients([loss], [...model.parameters()]).map((one) => one!));
    });
  expectClose(
    told,
    gradientWith((policy_S) => tensor([-1, -0.5, -3, -2]).sub(policy_S)),
  );
  expectClose(
    untaught,
    gradientWith((policy_S) => policy_S.mul(0)),
  );
});

test("a lesson adds the divergence from the policy that reads its context, and no reward", async () => {
  const model = createPreset("nano", vocabSize, 1);
  const row = sampleOf(undefined);
  const lesson: Lesson = {
    tokenIds: row.tokenIds,
    lossMask: row.lossMask,
    teacherPromptIds: Int32Array.of(9, 1, 2, 3),
  };
  const lessons = { divergence: "forward", coefficient: 2 } as const;
  const got = await gradientOf(model, { lessons }, { samples: [row], lessons: [lesson] });
  const wanted = tensorScope(() => {
    const p = logprobsOf(model, prompt);
    const t = noGrad(() => logprobsOf(model, [9, 1, 2, 3]));
    const kl_S = t.exp().mul(t.sub(p)).sum(1);
    const loss = chosen(p).mul(reward).neg().mean().add(kl_S.mean().mul(2));
    return flat(gradients([loss], [...model.parameters()]).map((one) => one!));
  });
  expectClose(got, wanted);
});
