/**
 * Recurrent PPO, for comparison: adapt module and student's actor trained end to end, from the first step, by PPO alone.
 *
 * In: a rollout of the student in phase adapt. Out: the two and the critic have changed. There is no teacher: the latent is
 * whatever helps. Minibatches are whole sequences, and the gradient goes back through the memory to the start of the rollout.
 */
import { entropyBonus } from "../src/algorithms/losses/entropy-bonus.ts";
import { ppoClipLoss } from "../src/algorithms/losses/policy/ppo-clip.ts";
import { valueLoss } from "../src/algorithms/losses/value-loss.ts";
import { whiten } from "../src/algorithms/whiten.ts";
import { batchOf } from "../src/control/adaptation/batch.ts";
import type { AdaptationPolicy } from "../src/control/adaptation/policy/adaptation-policy.ts";
import type { AdaptationTrainerOptions } from "../src/control/adaptation/trainer.ts";
import type { ControlRollout } from "../src/control/control-rollout.ts";
import { shuffledMinibatches } from "../src/control/ppo/minibatches.ts";
import { adaptedLr } from "../src/control/ppo/ppo.ts";
import { scoreControl } from "../src/control/ppo/scores.ts";
import { deriveSeed, Random } from "../src/random/random.ts";
import { noGrad } from "../src/torch/autograd.ts";
import { tensor } from "../src/torch/create.ts";
import { AdamW } from "../src/torch/optim/adamw.ts";
import { clipGradNorm } from "../src/torch/optim/clip-grad-norm.ts";
import { withPrefix } from "../src/torch/optim/parameter-group.ts";
import { tensorScope } from "../src/torch/scope.ts";
import type { Tensor } from "../src/torch/tensor.ts";

/** Sequences of N environments. */
type Sequences = {
  readonly observations_NTO: Tensor;
  readonly isFirst_NT: Tensor;
  readonly carry_NC: Tensor;
  readonly actions_NTA: Tensor;
  readonly samplerLogprobs_NT: Tensor;
  readonly statistics_NTS: Tensor;
  readonly advantages_NT: Tensor;
  readonly returns_NTG: Tensor;
};

export class RecurrentTrainer {
  readonly #policy: AdaptationPolicy;
  readonly #options: AdaptationTrainerOptions;
  readonly #actorOptimizer: AdamW;
  readonly #criticOptimizer: AdamW;
  #step = 0;

  constructor(policy: AdaptationPolicy, options: AdaptationTrainerOptions) {
    this.#policy = policy;
    this.#options = options;
    const settings = { lr: options.lr, weightDecay: 0 };
    this.#actorOptimizer = new AdamW(
      new Map([
        ...withPrefix("adaptModule", policy.adaptModule.namedParameters()),
        ...withPrefix("actorAdapt", policy.actorAdapt.namedParameters()),
      ]),
      settings,
    );
    this.#criticOptimizer = new AdamW(policy.critic.namedParameters(), settings);
  }

  step(rollout: ControlRollout): void {
    const { policyEpochs, policyMinibatches, seed } = this.#options;
    const random = new Random(deriveSeed(seed, this.#step++));
    tensorScope(() => {
      const sequences = noGrad(() => this.#sequencesOf(rollout));
      for (let epoch = 0; epoch < policyEpochs; epoch++) {
        for (const own of shuffledMinibatches(sequences, policyMinibatches, random))
          tensorScope(() => this.#update(own));
      }
    });
    this.#policy.normalizer.update(rollout);
  }

  #sequencesOf(rollout: ControlRollout): Sequences {
    const policy = this.#policy;
    const { numTicks: T, numEnvs: N, actionSize: A, numRewardGroups: G } = rollout;
    const { observations_TNO, isFirst_TN, carry_NC } = batchOf(rollout, policy);
    const valuesOf = (observations_RO: Tensor) => policy.values(policy.normalizer.forward(observations_RO));
    const { advantages_B, returns_BG } = scoreControl(rollout, rollout.rewards_TNG, valuesOf, this.#options);
    const everyRow = isFirst_TN.logicalOr(isFirst_TN.logicalNot());
    const { latents_TNZ } = policy.predict("adaptModule", observations_TNO, isFirst_TN, carry_NC);
    const means_TNA = policy.means("actorAdapt", observations_TNO, latents_TNZ);
    const envFirst = (values: Tensor) => values.transpose(0, 1);
    return {
      carry_NC,
      observations_NTO: envFirst(observations_TNO),
      isFirst_NT: envFirst(isFirst_TN),
      actions_NTA: envFirst(tensor(rollout.actions_TNA, [T, N, A])),
      samplerLogprobs_NT: envFirst(tensor(rollout.samplerLogprobs_TN, [T, N])),
      statistics_NTS: envFirst(policy.actorAdapt.distribution.statistics(means_TNA)),
      advantages_NT: envFirst(whiten(advantages_B.view(T, N), everyRow)),
      returns_NTG: envFirst(returns_BG.view(T, N, G)),
    };
  }

  #update(own: Sequences): void {
    const policy = this.#policy;
    const { clip, entropyCoefficient, maxGradNorm } = this.#options;
    const { distribution } = policy.actorAdapt;
    const observations_TNO = own.observations_NTO.transpose(0, 1);
    const { latents_TNZ } = policy.predict(
      "adaptModule",
      observations_TNO,
      own.isFirst_NT.transpose(0, 1),
      own.carry_NC,
    );
    const means_NTA = policy.means("actorAdapt", own.observations_NTO, latents_TNZ.transpose(0, 1));
    const lossMask_BT = own.isFirst_NT.logicalOr(own.isFirst_NT.logicalNot());
    const surrogate = ppoClipLoss(
      {
        policyLogprobs_BT: distribution.logprobs(means_NTA, own.actions_NTA),
        anchorLogprobs_BT: own.samplerLogprobs_NT,
        advantages_BT: own.advantages_NT,
        lossMask_BT,
      },
      { clipLow: clip, clipHigh: clip, dualClip: null },
    );
    const bonus = entropyBonus({ entropies_BT: distribution.entropies(means_NTA), lossMask_BT }, entropyCoefficient);
    const returns_BG = own.returns_NTG.flatten(0, 1);
    const values_BG = policy.values(own.observations_NTO).flatten(0, 1);
    const critic = valueLoss(
      {
        values_BT: values_BG,
        oldValues_BT: values_BG.detach(),
        returns_BT: returns_BG,
        lossMask_BT: returns_BG.isFinite(),
      },
      { valueClip: null },
    );
    this.#followKl(distribution.klFrom(own.statistics_NTS, means_NTA).detach().mean().item());
    for (const optimizer of [this.#actorOptimizer, this.#criticOptimizer]) optimizer.zeroGrad();
    surrogate.loss_BT.mean().add(bonus.loss_BT.mean()).add(critic.loss_BT.mean()).backward();
    for (const optimizer of [this.#actorOptimizer, this.#criticOptimizer]) {
      clipGradNorm(optimizer.groups[0]!.parameters.values(), maxGradNorm);
      optimizer.step();
      optimizer.zeroGrad();
    }
  }

  #followKl(kl: number): void {
    const { targetKl } = this.#options;
    const [group] = this.#actorOptimizer.groups;
    if (targetKl === null || group === undefined || kl <= 0) return;
    group.lr = adaptedLr(group.lr, kl, targetKl);
  }
}
