/**
 * Every piece of an algorithm, and which peers have it: what docs/reference/algorithms.md is made from.
 *
 * Formula and source come from the doc comment of the export, options from its type; a row says where it is. A test fails
 * when an exported function is neither here nor in `supporting`.
 */
import type { Peer } from "./peers.ts";

export type PieceKind = "advantage" | "policy loss" | "other loss" | "correction" | "kl" | "reduction" | "shaping";

export interface PieceRow {
  readonly kind: PieceKind;
  /** Under src/algorithms. */
  readonly file: string;
  /** The exported function. */
  readonly name: string;
  /** Peers that have it, from their source; not found is not proven absent. */
  readonly peers: readonly Peer[];
  /** Where the doc comment cites no paper. */
  readonly source?: string;
}

export const pieces: readonly PieceRow[] = [
  {
    kind: "advantage",
    file: "advantages/gae.ts",
    name: "gae",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  },
  {
    kind: "advantage",
    file: "advantages/discounted-returns.ts",
    name: "discountedReturns",
    peers: ["ROLL", "OpenRLHF"],
  },
  {
    kind: "advantage",
    file: "advantages/group-relative.ts",
    name: "groupRelative",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "prime-rl", "OpenRLHF", "SkyRL", "tinker"],
  },
  {
    kind: "advantage",
    file: "advantages/leave-one-out.ts",
    name: "leaveOneOut",
    peers: ["verl", "ROLL", "TRL", "AReaL", "OpenRLHF", "SkyRL"],
  },
  {
    kind: "advantage",
    file: "advantages/reinforce-plus-plus.ts",
    name: "reinforcePlusPlus",
    peers: ["verl", "ROLL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  },
  {
    kind: "advantage",
    file: "advantages/reinforce-plus-plus.ts",
    name: "reinforcePlusPlusBaseline",
    peers: ["verl", "slime", "OpenRLHF"],
  },
  { kind: "advantage", file: "advantages/remax.ts", name: "remax", peers: ["verl"] },
  { kind: "advantage", file: "advantages/opo.ts", name: "optimalBaseline", peers: ["verl"] },
  { kind: "advantage", file: "advantages/gpg.ts", name: "gpg", peers: ["verl"] },
  { kind: "advantage", file: "advantages/pass-at-k.ts", name: "passAtK", peers: ["verl"] },
  { kind: "advantage", file: "advantages/max-rl.ts", name: "maxRl", peers: ["prime-rl", "SkyRL"] },
  { kind: "advantage", file: "advantages/gigpo.ts", name: "gigpo", peers: ["ROLL"] },
  { kind: "advantage", file: "advantages/agent-baseline.ts", name: "agentBaseline", peers: ["prime-rl"] },
  { kind: "advantage", file: "advantages/normalize-rewards.ts", name: "normalizeRewards", peers: ["ROLL", "AReaL"] },
  { kind: "advantage", file: "advantages/clip.ts", name: "clip", peers: ["ROLL"], source: "ROLL" },
  { kind: "advantage", file: "whiten.ts", name: "whiten", peers: ["verl", "ROLL"] },

  {
    kind: "policy loss",
    file: "losses/policy/ppo-clip.ts",
    name: "ppoClipLoss",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "OpenRLHF", "SkyRL", "tinker"],
  },
  {
    kind: "policy loss",
    file: "losses/policy/decoupled-ppo.ts",
    name: "decoupledPpoLoss",
    peers: ["verl", "AReaL"],
  },
  {
    kind: "policy loss",
    file: "losses/policy/gspo.ts",
    name: "gspoLoss",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "OpenRLHF", "SkyRL"],
  },
  {
    kind: "policy loss",
    file: "losses/policy/segment-clip.ts",
    name: "segmentClipLoss",
    peers: ["ROLL"],
    source: "ROLL",
  },
  {
    kind: "policy loss",
    file: "losses/policy/cispo.ts",
    name: "cispoLoss",
    peers: ["verl", "ROLL", "TRL", "slime", "ART", "SkyRL", "tinker"],
  },
  {
    kind: "policy loss",
    file: "losses/policy/sapo.ts",
    name: "sapoLoss",
    peers: ["verl", "TRL", "AReaL", "SkyRL"],
  },
  { kind: "policy loss", file: "losses/policy/gmpo.ts", name: "gmpoLoss", peers: ["verl", "TRL"] },
  { kind: "policy loss", file: "losses/policy/topr.ts", name: "toprLoss", peers: ["ROLL"] },
  {
    kind: "policy loss",
    file: "losses/policy/truncated-is.ts",
    name: "truncatedIsLoss",
    peers: ["ROLL", "slime", "ART", "OpenRLHF", "SkyRL"],
  },
  {
    kind: "policy loss",
    file: "losses/policy/squared-penalty.ts",
    name: "squaredPenaltyLoss",
    peers: ["verl", "ROLL", "ART"],
  },
  {
    kind: "policy loss",
    file: "losses/policy/reinforce.ts",
    name: "reinforceLoss",
    peers: ["verl", "ROLL", "ART", "SkyRL", "tinker"],
  },
  { kind: "policy loss", file: "losses/policy/dppo.ts", name: "dppoLoss", peers: ["verl", "prime-rl", "SkyRL"] },
  { kind: "policy loss", file: "losses/policy/clip-cov.ts", name: "clipCovLoss", peers: ["verl", "SkyRL"] },
  { kind: "policy loss", file: "losses/policy/kl-cov.ts", name: "klCovLoss", peers: ["verl", "SkyRL"] },
  { kind: "policy loss", file: "losses/policy/bypass.ts", name: "bypassLoss", peers: ["verl"], source: "verl" },

  {
    kind: "other loss",
    file: "losses/value-loss.ts",
    name: "valueLoss",
    peers: ["verl", "ROLL"],
    source: "PPO implementations",
  },
  {
    kind: "other loss",
    file: "losses/entropy-bonus.ts",
    name: "entropyBonus",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
  },
  { kind: "other loss", file: "losses/entropy-controller.ts", name: "updateEntropyController", peers: ["TRL"] },
  {
    kind: "other loss",
    file: "losses/distillation/on-policy-distillation.ts",
    name: "onPolicyDistillationLoss",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "prime-rl", "SkyRL", "tinker"],
  },
  {
    kind: "other loss",
    file: "losses/distillation/on-policy-distillation.ts",
    name: "distillationAdvantages",
    peers: [],
    source: "as onPolicyDistillationLoss",
  },
  { kind: "other loss", file: "losses/distillation/distillation.ts", name: "distillationLoss", peers: [] },
  {
    kind: "other loss",
    file: "losses/distillation/top-distillation.ts",
    name: "topDistillationLoss",
    peers: [],
    source: "as distillationLoss",
  },
  {
    kind: "other loss",
    file: "losses/distillation/context-distillation.ts",
    name: "contextDistillationLoss",
    peers: [],
  },
  { kind: "other loss", file: "losses/preference/dpo.ts", name: "dpoLoss", peers: ["TRL"] },
  { kind: "other loss", file: "losses/preference/kto.ts", name: "ktoLoss", peers: ["TRL"] },
  { kind: "other loss", file: "losses/preference/orpo.ts", name: "orpoLoss", peers: ["TRL"] },
  { kind: "other loss", file: "losses/preference/simpo.ts", name: "simpoLoss", peers: ["TRL"] },
  { kind: "other loss", file: "losses/preference/score-regression.ts", name: "scoreRegressionLoss", peers: [] },
  { kind: "other loss", file: "losses/preference/bradley-terry.ts", name: "bradleyTerryLoss", peers: ["TRL"] },
  {
    kind: "other loss",
    file: "losses/cross-entropy.ts",
    name: "crossEntropyLoss",
    peers: ["TRL", "prime-rl"],
    source: "maximum likelihood",
  },

  {
    kind: "correction",
    file: "corrections/rollout-correction.ts",
    name: "correctRollout",
    peers: ["verl", "ROLL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
    source: "verl",
  },
  {
    kind: "correction",
    file: "corrections/importance-weights.ts",
    name: "importanceWeights",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "OpenRLHF", "SkyRL"],
    source: "Ionides 2008; Yao et al. 2025; IcePop: Ling team 2025",
  },
  {
    kind: "correction",
    file: "corrections/rejection.ts",
    name: "rejectTokens",
    peers: ["verl", "ROLL", "AReaL", "slime", "OpenRLHF", "SkyRL"],
    source: "verl; the criteria stand beside REJECTION_NAMES",
  },
  {
    kind: "correction",
    file: "corrections/off-policy-metrics.ts",
    name: "offPolicyMetrics",
    peers: ["verl"],
    source: "verl",
  },
  {
    kind: "correction",
    file: "corrections/outlier-mask.ts",
    name: "outlierMask",
    peers: ["ROLL", "slime", "SkyRL"],
    source: "SkyRL, slime, ROLL",
  },
  {
    kind: "correction",
    file: "corrections/off-policy-sequence-mask.ts",
    name: "offPolicySequenceMask",
    peers: ["TRL", "slime"],
  },
  {
    kind: "correction",
    file: "corrections/staleness-mask.ts",
    name: "stalenessMask",
    peers: ["slime"],
    source: "slime",
  },

  {
    kind: "kl",
    file: "kl/estimate.ts",
    name: "klEstimate",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "OpenRLHF", "SkyRL"],
    source: "Schulman 2020; gradients: arXiv:2506.09477",
  },
  { kind: "kl", file: "kl/loss.ts", name: "klLoss", peers: ["verl", "ROLL", "TRL", "ART"] },
  { kind: "kl", file: "kl/penalty.ts", name: "penalizeRewards", peers: ["verl", "ROLL", "tinker"] },
  {
    kind: "kl",
    file: "kl/controller.ts",
    name: "updateKlController",
    peers: ["verl", "ROLL", "OpenRLHF", "SkyRL"],
  },

  {
    kind: "reduction",
    file: "reduce.ts",
    name: "reduceLoss",
    peers: ["verl", "ROLL", "TRL", "AReaL", "slime", "ART", "prime-rl", "OpenRLHF", "SkyRL"],
    source: "see the table of reductions",
  },
  {
    kind: "reduction",
    file: "reduce.ts",
    name: "reduceSequenceLoss",
    peers: ["verl"],
    source: "for GMPO, DPO and Bradley-Terry",
  },

  {
    kind: "shaping",
    file: "shaping/overlong.ts",
    name: "softOverlongPenalty",
    peers: ["verl", "TRL", "AReaL", "OpenRLHF"],
  },
  {
    kind: "shaping",
    file: "shaping/truncated-mask.ts",
    name: "maskTruncated",
    peers: ["ROLL", "TRL", "AReaL", "prime-rl", "OpenRLHF", "SkyRL", "tinker"],
  },
  {
    kind: "shaping",
    file: "shaping/zero-variance-filter.ts",
    name: "hasVariance",
    peers: ["verl", "ROLL", "AReaL", "slime", "prime-rl", "OpenRLHF", "SkyRL", "tinker"],
  },
  { kind: "shaping", file: "shaping/difficulty-filter.ts", name: "isLearnable", peers: ["ROLL", "OpenRLHF"] },
];

/** Exported functions that pieces are built with: whole files, or `file#name`. */
export const supporting: readonly string[] = [
  "advantages/group-rows.ts",
  "advantages/host-values.ts",
  "advantages/join-rows.ts",
  "advantages/normalize-groups.ts",
  "advantages/token-values.ts",
  "corrections/bypass-check.ts",
  "corrections/correction-metrics.ts",
  "corrections/correction-options.ts",
  "corrections/importance-weights.ts#expBounded",
  "corrections/rollout-correction.ts#uncorrectedMetrics",
  "losses/preference/pair-metrics.ts",
  "shaping/reward-moments.ts",
  "corrections/parse-threshold.ts",
  "corrections/parse-verl-options.ts",
  "expect-batch.ts",
  "kl/estimate.ts#parseKlEstimator",
  "kl/penalty.ts#measureKl",
  "losses/distillation/context-distillation.ts#replyPositions",
  "losses/distillation/distillation.ts#klOver",
  "losses/entropy-controller.ts#entropyCoefficient",
  "losses/expect-tokens.ts",
  "losses/live-tokens.ts",
  "losses/loss-metrics.ts",
  "losses/loss-output.ts",
  "losses/policy/clip-cov.ts#clipCovSelection",
  "losses/policy/clipped-surrogate.ts",
  "losses/policy/kl-cov.ts#klCovSelection",
  "losses/policy/policy-loss.ts",
  "losses/policy/ppo-clip.ts#ppoClip",
  "losses/policy/segment-clip.ts#runsOf",
  "losses/policy/token-covariance.ts",
  "losses/preference/sequence-logprobs.ts",
  "masked.ts",
  "reduce.ts#globalDenominators",
  "shaping/row-filter.ts",
  "shaping/greedy-reward.ts",
];
