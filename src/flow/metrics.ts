/**
 * Numbers that a stage reports beside its result, and what each of them means.
 *
 * Names are `stage/quantity`. The table below is the one place where they are described: docs/reference/metrics.md is made from
 * it, and consoles and dashboards label with it. `<name>` stands for anything: a reward, a domain, a term of a loss.
 */

/** Numbers by name. */
export type Metrics = Readonly<Record<string, number>>;

/** What a metric means. */
export interface MetricInfo {
  readonly unit: MetricUnit;
  readonly meaning: string;
  /** The direction in which a run gets better; "neither" for a metric that only describes. */
  readonly better: "higher" | "lower" | "neither";
}

/** `share` is from 0 to 1; `nat` is a log-probability or a difference of them; "" has no unit. */
type MetricUnit =
  | ""
  | "share"
  | "count"
  | "tokens"
  | "tokens/s"
  | "steps/s"
  | "ms"
  | "bytes"
  | "nat"
  | "steps"
  | "reward";

type Row = readonly [unit: MetricUnit, better: MetricInfo["better"], meaning: string];

/** Every metric and family of metrics. The first family that fits a name counts. */
const table: Readonly<Record<string, Row>> = {
  "reward/mean": ["reward", "higher", "Mean total reward of the trajectories that were delivered or filtered."],
  "reward/max": ["reward", "higher", "Largest total reward; -Infinity where there is no trajectory."],
  "reward/min": ["reward", "higher", "Smallest total reward; Infinity where there is no trajectory."],
  "reward/greedy": [
    "reward",
    "higher",
    "Mean total reward of the greedy trajectories that are the baselines of delivered groups, for recipes that have them.",
  ],
  "reward/<name>": ["reward", "higher", "Mean of one part of the reward."],
  "env/success": ["share", "higher", "Episodes that reached their goal, as the environment reports."],
  "env/<name>": ["", "neither", "Mean of a metric that the environment or a reward reports per trajectory."],

  "episode/return": ["reward", "higher", "Mean return of the control episodes that ended in this step."],
  "episode/return_100": ["reward", "higher", "Mean return of the last hundred control episodes of the run."],
  "episode/length": ["count", "neither", "Mean length, in ticks, of the control episodes that ended in this step."],
  "episode/count": ["count", "neither", "Control episodes that ended in this step."],

  "rollout/env_steps": ["count", "neither", "Steps of single environments in a control rollout."],
  "rollout/groups": ["count", "neither", "Groups delivered to training."],
  "rollout/trajectories": ["count", "neither", "Trajectories delivered to training."],
  "rollout/greedy_trajectories": [
    "count",
    "neither",
    "Greedy trajectories sampled as baselines of the delivered groups. They are not trained on.",
  ],
  "rollout/failed_share": [
    "share",
    "lower",
    "Trajectories that failed because the environment, the engine or a reward did.",
  ],
  "rollout/filtered_groups": ["count", "lower", "Groups that a filter dropped, such as those with equal rewards."],
  "rollout/given_up_groups": ["count", "lower", "Groups given up because too many of their samples failed."],
  "rollout/stale_groups": ["count", "lower", "Groups dropped because their tokens were too old."],
  "rollout/aborted_samples": ["count", "lower", "Samples stopped early because they were no longer needed."],
  "rollout/dropped_prompts": [
    "count",
    "lower",
    "Prompts left out because they do not fit the context or could not be made: no token is sampled for them.",
  ],
  "rollout/truncation_gap": [
    "nat",
    "neither",
    "Mean log-prob of a token under the distribution it was drawn from, minus that at the sampling temperature over the whole vocabulary: what top-p, top-k, min-p, penalties and bias change. 0 without them.",
  ],
  "rollout/old_cache_share": [
    "share",
    "lower",
    "Tokens drawn on keys and values of older weights than their own: replies that were under way when weights changed. 0 with rollout.reprefill.",
  ],
  "rollout/cut_replies": ["share", "lower", "Replies that a limit on tokens cut off."],
  "rollout/truncated_share": ["share", "lower", "Trajectories that a limit cut short: tokens, turns, context or time."],
  "rollout/turns": ["count", "neither", "Mean number of replies per trajectory."],
  "rollout/reply_tokens": ["tokens", "neither", "Mean number of tokens that the model wrote per trajectory."],
  "rollout/reply_tokens_max": ["tokens", "neither", "Largest number of tokens that the model wrote in a trajectory."],
  "rollout/staleness": ["steps", "lower", "Mean staleness of a reply's first token, in training steps."],
  "rollout/staleness_max": ["steps", "lower", "Largest staleness of a reply's first token, in training steps."],
  "rollout/equal_reward_share": ["share", "lower", "Groups whose rewards are all equal: they teach nothing."],

  "experience/rows": ["count", "neither", "Rows to train on, one or more per trajectory."],
  "experience/forks": ["count", "lower", "Rows forked because a prompt did not extend the tokens before it."],
  "experience/too_long": ["count", "lower", "Rows left out because they do not fit into a forward pass."],
  "experience/tokens": ["tokens", "neither", "Tokens of all rows, prompts included."],
  "experience/loss_tokens": ["tokens", "neither", "Tokens that the loss counts."],

  "replay/share": ["share", "neither", "Rows of the batch that were replayed."],
  "replay/age": ["steps", "neither", "Mean staleness of the replayed groups' oldest tokens, in training steps."],
  "replay/weight": ["", "neither", "Mean importance weight of the groups that were replayed."],
  "replay/trajectories": ["count", "neither", "Trajectories in the replay buffer."],

  "score/reward": ["reward", "higher", "Mean reward of a trajectory as training sees it, including replayed ones."],
  "score/shaped_reward": [
    "reward",
    "neither",
    "Mean reward of a trajectory after clipping, length penalty and KL penalty.",
  ],
  "score/advantage": ["", "neither", "Mean advantage over loss tokens."],
  "score/advantage_std": ["", "neither", "Standard deviation of the advantage over loss tokens."],
  "score/kept_fraction": [
    "share",
    "higher",
    "Sampled tokens that masks and rejections leave in the loss, in bypass mode too.",
  ],
  "score/kl_coefficient": ["", "neither", "Cost of one nat of KL to the reference, in the reward of this step."],
  "score/entropy_coefficient": ["", "neither", "Weight of the entropy bonus in this step."],
  "score/reward_mean_<domain>": [
    "reward",
    "neither",
    "Running mean of the rewards of a domain, up to this step, by which they are normalized.",
  ],
  "score/reward_std_<domain>": [
    "reward",
    "neither",
    "Running standard deviation of the rewards of a domain, up to this step, by which they are normalized.",
  ],
  "score/reference_kl": ["nat", "lower", "KL to the reference per token, as charged to the reward."],

  "distillation/reverse_kl": [
    "nat",
    "lower",
    "KL(policy || teacher) per token: over whole distributions, or estimated from the sampled tokens.",
  ],
  "distillation/forward_kl": ["nat", "lower", "KL(teacher || policy) per token, over whole distributions."],
  "distillation/jsd": ["nat", "lower", "Jensen-Shannon divergence of policy and teacher per token."],
  "distillation/untaught_rows": [
    "count",
    "lower",
    "Rows whose teacher did not measure them: with its context they are too long, or the template changes their tokens.",
  ],

  "reflection/tries": ["count", "neither", "Failed trajectories that were tried again after a reflection."],
  "reflection/success_share": ["share", "higher", "Second tries that succeeded."],
  "reflection/reward": ["reward", "higher", "Mean total reward of second tries."],
  "reflection/lessons": ["count", "neither", "Rows of second tries that are learned without the reflection."],
  "reflection/divergence": [
    "nat",
    "lower",
    "Divergence per token between the policy with the reflection and without it, at second tries that succeeded.",
  ],

  "policy/entropy": ["nat", "neither", "Entropy of the policy per token. Near 0, it has stopped exploring."],
  "policy/entropy_nonfinite_fraction": ["share", "lower", "Tokens left out of the entropy: NaN or infinite."],
  "policy/clip_fraction": ["share", "neither", "Tokens whose ratio was clipped, and so have no gradient."],
  "policy/clip_fraction_positive": ["share", "neither", "Tokens with a positive advantage that were clipped."],
  "policy/clip_fraction_negative": ["share", "neither", "Tokens with a negative advantage that were clipped."],
  "policy/dual_clip_fraction": ["share", "neither", "Tokens with a negative advantage that the second clip bounds."],
  "policy/ratio_cap_fraction": ["share", "neither", "Tokens inside the trust region whose ratio was capped."],
  "policy/anchor_kl": ["nat", "lower", "KL(anchor || policy) by k1: how far the updates of a step have moved."],
  "policy/kl": ["nat", "neither", "KL(policy that acted || policy), by which the learning rate may be steered."],
  "policy/approx_kl": ["nat", "lower", "KL(policy that acted || policy) by k3, which is never negative."],
  "policy/anchor_kl_abs": ["nat", "lower", "Mean |log-ratio| to the anchor."],
  "policy/penalized_fraction": ["share", "neither", "Tokens held back by KL for driving the entropy down."],
  "policy/positive_fraction": ["share", "neither", "Tokens of samples with a positive reward."],
  "policy/sampler_weight": ["", "neither", "Mean weight anchor / sampler after its cap; 1 when on-policy."],
  "policy/weight_cap_fraction": ["share", "lower", "Tokens whose weight anchor / sampler was capped."],
  "policy/nonfinite_fraction": ["share", "lower", "Loss tokens left out: an input was NaN or infinite."],
  "policy/<name>": ["", "neither", "A number that the policy loss reports; see the algorithm."],

  "value/mean": ["reward", "neither", "Mean value that the critic predicts."],
  "value/explained_variance": [
    "share",
    "higher",
    "Share of the returns' variance that the critic predicts: 1 - Var(return - value) / Var(return).",
  ],
  "value/clip_fraction": ["share", "neither", "Values whose change was clipped."],
  "value/nonfinite_fraction": ["share", "lower", "Values left out: NaN or infinite."],

  "student/action_error": ["", "lower", "Squared distance between the student's action and the teacher's."],
  "student/action_<direction>_kl": ["nat", "lower", "KL between the actions of student and teacher."],
  "student/latent_error": ["", "lower", "Squared distance between the student's latent and the teacher's."],
  "student/nonfinite_fraction": ["share", "lower", "Entries left out: NaN or infinite."],

  "train/loss": [
    "",
    "neither",
    "Loss, averaged over the updates of a step. In reinforcement learning its value says little; watch the reward.",
  ],
  "train/loss_<term>": ["", "neither", "One term of the loss: policy, kl, entropy or value."],
  "train/grad_norm": ["", "neither", "Norm of the gradient before clipping."],
  "train/critic_grad_norm": ["", "neither", "Norm of the critic's gradient before clipping."],
  "train/lr": ["", "neither", "Learning rate of the last update."],
  "train/epoch": ["count", "neither", "Passes over the data so far, with the part of one that is under way."],
  "train/updates": ["count", "neither", "Optimizer updates in this step."],
  "train/skipped_updates": ["count", "lower", "Updates skipped because the loss or a gradient was NaN or infinite."],
  "train/sampler_gap": ["nat", "lower", "Mean |anchor - sampler| log-prob: 0 when engine and trainer agree."],
  "train/sampler_gap_max": ["nat", "lower", "Largest |anchor - sampler| log-prob of a token."],
  "train/sampler_gap_old_cache": [
    "nat",
    "lower",
    "Mean |anchor - sampler| log-prob of tokens drawn on keys and values of older weights than their own. Absent in steps without any.",
  ],
  "train/staleness": ["steps", "lower", "Mean staleness of a token, in training steps."],
  "train/staleness_max": ["steps", "lower", "Largest staleness of a token, in training steps."],

  "supervised/loss": ["nat", "lower", "Mean of -log p over loss tokens."],
  "supervised/grad_norm": ["", "neither", "Norm of the gradient before clipping."],
  "supervised/skipped_updates": [
    "count",
    "lower",
    "Whether the update was skipped (1) because its loss or a gradient was NaN or infinite.",
  ],
  "supervised/lr": ["", "neither", "Learning rate of the update."],
  "supervised/perplexity": ["", "lower", "Perplexity per loss token: e to the power of the loss."],
  "supervised/tokens": ["tokens", "neither", "Loss tokens of the update."],

  "preference/accuracy": [
    "share",
    "higher",
    "Pairs whose chosen reply has the larger reward (for labeled replies: those on the right side of the baseline).",
  ],
  "preference/margin": ["reward", "higher", "Mean reward of the chosen reply minus that of the rejected one."],
  "preference/chosen_reward": ["reward", "neither", "Mean implicit reward of the chosen, or wanted, replies."],
  "preference/rejected_reward": ["reward", "neither", "Mean implicit reward of the rejected, or unwanted, replies."],
  "preference/log_odds": ["nat", "higher", "Mean log odds of the chosen reply minus those of the rejected one (ORPO)."],
  "preference/score": ["reward", "neither", "Mean score that the reward model gives."],
  "preference/score_error": ["reward", "lower", "Mean distance between the reward model's score and the given one."],
  "preference/nonfinite_fraction": ["share", "lower", "Pairs or replies left out: a number was NaN or infinite."],

  "memory/<role>": [
    "bytes",
    "neither",
    "What a role holds from step to step in the worker that has the most of it: weights, optimizer state, a cache. Roles are trainer, reference, critic, engine and reward_model.",
  ],

  "sync/ms": ["ms", "lower", "Time to bring new weights to the engines."],
  "sync/bytes": ["bytes", "neither", "Bytes of weights sent to all engines."],

  "time/generate_ms": ["ms", "lower", "Mean time in the engine per trajectory."],
  "time/env_ms": ["ms", "lower", "Mean time in the environment per trajectory."],
  "time/reward_ms": ["ms", "lower", "Mean time in rewards per trajectory."],
  "time/trajectory_ms": ["ms", "lower", "Mean time from the start to the end of a trajectory."],
  "time/step_ms": ["ms", "lower", "Time from the end of the last step to the end of this one."],
  "time/<stage>_ms": [
    "ms",
    "lower",
    "Time that a step spent in one stage of the loop: rollout, train, sync, validate or checkpoint.",
  ],
  "throughput/generate": ["tokens/s", "higher", "Delivered reply tokens per second in which the engine was busy."],
  "throughput/train": ["tokens/s", "higher", "Tokens of all rows per second in which the trainer was busy."],
  "throughput/step": ["tokens/s", "higher", "Tokens of all rows per second of the whole step."],
  "throughput/env_steps": ["steps/s", "higher", "Steps of single environments per second of the whole step."],
  "idle/<worker>": ["share", "lower", "Share of the step in which a worker had nothing to do."],

  "rollout_corr/kl": ["nat", "lower", "KL(sampler || policy) by k1."],
  "rollout_corr/k3_kl": ["nat", "lower", "KL(sampler || policy) by k3."],
  "rollout_corr/training_ppl": ["", "neither", "Perplexity of the samples under the trainer's weights."],
  "rollout_corr/training_log_ppl": ["nat", "neither", "Log perplexity of the samples under the trainer's weights."],
  "rollout_corr/rollout_ppl": ["", "neither", "Perplexity of the samples under the sampler."],
  "rollout_corr/rollout_log_ppl": ["nat", "neither", "Log perplexity of the samples under the sampler."],
  "rollout_corr/ppl_ratio": [
    "",
    "neither",
    "Perplexity under the trainer divided by that under the sampler; 1 when they agree.",
  ],
  "rollout_corr/log_ppl_diff": ["nat", "neither", "Log perplexity under the trainer minus that under the sampler."],
  "rollout_corr/log_ppl_abs_diff": [
    "nat",
    "lower",
    "Mean absolute difference of the two log perplexities over sequences.",
  ],
  "rollout_corr/log_ppl_diff_max": ["nat", "lower", "Largest difference of the two log perplexities."],
  "rollout_corr/log_ppl_diff_min": ["nat", "neither", "Smallest difference of the two log perplexities."],
  "rollout_corr/chi2_token": ["", "lower", "Chi-square divergence E[w^2] - 1 over tokens."],
  "rollout_corr/chi2_seq": ["", "lower", "Chi-square divergence E[w^2] - 1 over sequences."],
  "rollout_corr/nonfinite_fraction": ["share", "lower", "Loss tokens rejected for NaN or infinite log-probs."],
  "rollout_corr/rollout_is_mean": ["", "neither", "Mean importance weight after its bounds; 1 when on-policy."],
  "rollout_corr/rollout_is_std": ["", "lower", "Standard deviation of the importance weights."],
  "rollout_corr/rollout_is_max": ["", "lower", "Largest importance weight."],
  "rollout_corr/rollout_is_min": ["", "neither", "Smallest importance weight."],
  "rollout_corr/rollout_is_eff_sample_size": [
    "share",
    "higher",
    "Effective sample size divided by the number of tokens.",
  ],
  "rollout_corr/rollout_is_ratio_fraction_high": ["share", "lower", "Importance weights above the upper bound."],
  "rollout_corr/rollout_is_ratio_fraction_low": ["share", "lower", "Importance weights below the lower bound."],
  "rollout_corr/rollout_is_oob_ratio": ["share", "lower", "Importance weights out of bounds, which are set to 0."],
  "rollout_corr/rollout_is_batch_norm_factor": [
    "",
    "neither",
    "Mean weight of the batch, by which all weights were divided.",
  ],
  "rollout_corr/rollout_is_seq_<statistic>": ["", "neither", "A statistic of the mean weights of sequences."],
  "rollout_corr/rollout_rs_masked_fraction": ["share", "lower", "Tokens rejected by any criterion."],
  "rollout_corr/rollout_rs_seq_masked_fraction": ["share", "lower", "Sequences with a rejected token."],
  "rollout_corr/rollout_rs_<criterion>_masked_fraction": [
    "share",
    "lower",
    "Tokens (or sequences, for criteria named seq_) rejected by one criterion.",
  ],
  "rollout_corr/rollout_rs_<criterion>_<statistic>": [
    "",
    "neither",
    "A statistic of the value that a rejection criterion compares.",
  ],

  "validation/loss": [
    "nat",
    "lower",
    "Loss of the objective on held-out rows; for supervised runs, the mean of -log p per loss token.",
  ],
  "validation/<metric>": ["", "neither", "A metric of the rollout on held-out prompts."],
};

const families = Object.entries(table)
  .filter(([name]) => name.includes("<"))
  .map(([name, row]) => ({ pattern: new RegExp(`^${name.replace(/<\w+>/g, ".+")}$`), info: infoOf(row) }));

const VALIDATION = "validation/";

/** All metrics by name or family, in the order of the reference. */
export const metricTable: ReadonlyMap<string, MetricInfo> = new Map(
  Object.entries(table).map(([name, row]) => [name, infoOf(row)]),
);

/** What a name means; undefined for one that nobody has described. Validation metrics mean what their own names mean. */
export function describeMetric(name: string): MetricInfo | undefined {
  const exact = name.includes("<") ? undefined : metricTable.get(name);
  if (exact !== undefined) return exact;
  if (name.startsWith(VALIDATION)) {
    const own = describeMetric(name.slice(VALIDATION.length));
    if (own !== undefined) return { ...own, meaning: `On held-out prompts: ${own.meaning}` };
  }
  return families.find(({ pattern }) => pattern.test(name))?.info;
}

function infoOf([unit, better, meaning]: Row): MetricInfo {
  return { unit, better, meaning };
}
