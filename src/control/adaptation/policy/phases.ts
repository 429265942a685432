/**
 * The phases of teacher/student adaptation: who acts in each, what is trained, and what is only read.
 *
 * | phase | acts | trained by PPO | trained by regression |
 * |---|---|---|---|
 * | train | encoderPriv + actor, adaptModule looks on | encoderPriv, actor, critic | adaptModule, actorAdapt |
 * | adapt | adaptModule + actorAdapt | nothing | adaptModule, actorAdapt |
 * | finetune | adaptEma + actorAdapt | actorAdapt, critic | adaptModule |
 *
 * PPO-ROA, as in HDMI (arXiv:2509.16757).
 */

/** In this order; adapt may be left out. */
export type AdaptationPhase = "train" | "adapt" | "finetune";

/** What a phase does with the networks of an AdaptationPolicy. */
export interface PhaseRules {
  /** The one that chooses actions. */
  readonly acts: "actor" | "actorAdapt";
  /** Where it gets its latent from. */
  readonly latentFrom: "encoderPriv" | "adaptModule" | "adaptEma";
  /** The one whose memory goes along with the rollout. */
  readonly remembers: "adaptModule" | "adaptEma";
  /** Whether PPO trains the policy that acts, and the critic. */
  readonly trainsPolicy: boolean;
  /** Whether the student learns to act as the teacher does. */
  readonly matchesActions: boolean;
  /** PPO leaves out the ticks of an episode up to this one: whoever acts has seen too little of it to be judged by them. */
  readonly skippedTicks: number;
}

/** The rules by phase. */
export const phaseRules: Readonly<Record<AdaptationPhase, PhaseRules>> = {
  train: {
    acts: "actor",
    latentFrom: "encoderPriv",
    remembers: "adaptModule",
    trainsPolicy: true,
    matchesActions: true,
    skippedTicks: 1,
  },
  adapt: {
    acts: "actorAdapt",
    latentFrom: "adaptModule",
    remembers: "adaptModule",
    trainsPolicy: false,
    matchesActions: true,
    skippedTicks: 1,
  },
  finetune: {
    acts: "actorAdapt",
    latentFrom: "adaptEma",
    remembers: "adaptEma",
    trainsPolicy: true,
    matchesActions: false,
    skippedTicks: 5,
  },
};
