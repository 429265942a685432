import { expect, test } from "vitest";
import { ppoClipLoss } from "../../algorithms/losses/policy/ppo-clip.ts";
import { valueLoss } from "../../algorithms/losses/value-loss.ts";
import { randn } from "../../torch/create.ts";
import type { Parameter } from "../../torch/nn/module.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { ControlPolicy, createCritic } from "../policy/control-policy.ts";
import { type ControlLossOptions, type ControlRows, controlLosses } from "./losses.ts";

const options: ControlLossOptions = { clip: 0.2, valueClip: 0.2, entropy: 0.01, normalizeAdvantages: true };

function setUp(actions: ConstructorParameters<typeof ControlPolicy>[0]["actions"]) {
  const generator = new Generator(3);
  const network = { hidden: [8], activation: "tanh", generator } as const;
  const policy = new ControlPolicy({ ...network, observationSize: 3, actions, normalizeObservations: false });
  const critic = createCritic(3, 2, network);
  // In double precision numeric gradients have digits to compare.
  for (const module of [policy, critic]) module.to({ dtype: "float64" });
  const draw = (...shape: number[]) => randn(shape, { generator, dtype: "float64" });
  const B = 12;
  const seen_BO = draw(B, 3);
  const actions_BA = actions.kind === "discrete" ? draw(B, 1).gt(0).to("float64") : draw(B, actions.size);
  const outputs_BP = policy.outputs(seen_BO).detach();
  const rows: ControlRows = {
    seen_BO,
    actions_BA,
    // Some ratios lie beyond the clip, on either side.
    samplerLogprobs_B: policy.distribution.logprobs(outputs_BP, actions_BA).detach().add(draw(B).mul(0.3)),
    statistics_BS: policy.distribution.statistics(outputs_BP),
    values_BG: critic.forward(seen_BO).detach().add(draw(B, 2).mul(0.3)),
    returns_BG: draw(B, 2),
    advantages_B: draw(B),
  };
  return { policy, critic, rows };
}

for (const actions of [{ kind: "discrete", count: 2 } as const, { kind: "continuous", size: 2 } as const]) {
  test(`gradients of the losses equal numeric ones for ${actions.kind} actions`, () => {
    const { policy, critic, rows } = setUp(actions);
    const total = () =>
      tensorScope(() => {
        const { policyLoss, criticLoss } = controlLosses(policy, critic, rows, options);
        return policyLoss.add(criticLoss).item();
      });
    tensorScope(() => {
      const { policyLoss, criticLoss } = controlLosses(policy, critic, rows, options);
      policyLoss.add(criticLoss).backward();
    });
    for (const parameter of [...policy.parameters(), ...critic.parameters()]) expectNumeric(parameter, total);
  });
}

test("the surrogate, the entropy and the squared error are those of the formulas", () => {
  const { policy, critic, rows } = setUp({ kind: "discrete", count: 2 });
  const { policyLoss, criticLoss, metrics } = controlLosses(policy, critic, rows, { ...options, valueClip: null });
  const ratios = policy.distribution
    .logprobs(policy.outputs(rows.seen_BO), rows.actions_BA)
    .sub(rows.samplerLogprobs_B)
    .exp()
    .toArray();
  const raw = rows.advantages_B.toArray();
  const mean = raw.reduce((sum, value) => sum + value, 0) / raw.length;
  const deviation = Math.sqrt(raw.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (raw.length - 1));
  const advantages = raw.map((value) => (value - mean) / (deviation + 1e-8));
  const surrogate = ratios.map((ratio, i) => {
    const advantage = advantages[i]!;
    return -Math.min(ratio * advantage, Math.min(Math.max(ratio, 0.8), 1.2) * advantage);
  });
  const entropy = policy.distribution.entropies(policy.outputs(rows.seen_BO)).mean().item();
  expect(policyLoss.item()).toBeCloseTo(surrogate.reduce((sum, value) => sum + value, 0) / 12 - 0.01 * entropy, 10);
  const gaps = critic.forward(rows.seen_BO).sub(rows.returns_BG).toArray();
  expect(criticLoss.item()).toBeCloseTo(gaps.reduce((sum, gap) => sum + gap ** 2 / 2, 0) / 24, 10);
  const kl = ratios.reduce((sum, ratio) => sum + ratio - 1 - Math.log(ratio), 0);
  expect(metrics["policy/approx_kl"]!.item()).toBeCloseTo(kl / 12, 10);
});

test("the losses equal those of the algorithms, which check every row", () => {
  const { policy, critic, rows } = setUp({ kind: "continuous", size: 2 });
  const { policyLoss, criticLoss, metrics, outputs_BP } = controlLosses(policy, critic, rows, options);
  const lossMask_BT = rows.returns_BG.isFinite();
  const squares = valueLoss(
    { values_BT: critic.forward(rows.seen_BO), oldValues_BT: rows.values_BG, returns_BT: rows.returns_BG, lossMask_BT },
    { valueClip: 0.2 },
  );
  expect(criticLoss.item()).toBeCloseTo(squares.loss_BT.mean().item(), 12);
  const centerd_B = rows.advantages_B.sub(rows.advantages_B.mean());
  const surrogate = ppoClipLoss(
    {
      policyLogprobs_BT: policy.distribution.logprobs(outputs_BP, rows.actions_BA).unsqueeze(1),
      anchorLogprobs_BT: rows.samplerLogprobs_B.unsqueeze(1),
      advantages_BT: centerd_B.div(rows.advantages_B.std().add(1e-8)).unsqueeze(1),
      lossMask_BT: lossMask_BT.narrow(1, 0, 1),
    },
    { clipLow: 0.2, clipHigh: 0.2, dualClip: null },
  );
  const entropy = policy.distribution.entropies(outputs_BP).mean().item();
  expect(policyLoss.item()).toBeCloseTo(surrogate.loss_BT.mean().item() - 0.01 * entropy, 12);
  const { sum, count } = surrogate.metrics["policy/clip_fraction"]!;
  expect(metrics["policy/clip_fraction"]!.item()).toBeCloseTo(sum.item() / count.item(), 12);
  expect(sum.item()).toBeGreaterThan(0);
});

function expectNumeric(parameter: Parameter, total: () => number): void {
  const values = parameter.detach();
  const gradient = parameter.grad!.toArray();
  const before = values.toTypedArray();
  const step = 1e-6;
  for (const [i, expected] of gradient.entries()) {
    const at = (shift: number) => {
      const moved = Float64Array.from(before as Float64Array);
      moved[i]! += shift;
      values.writeFrom(moved);
      return total();
    };
    const numeric = (at(step) - at(-step)) / (2 * step);
    values.writeFrom(before);
    expect(Math.abs(numeric - expected)).toBeLessThan(1e-6);
  }
  expect(gradient.some((value) => value !== 0)).toBe(true);
}
