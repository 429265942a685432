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

/** The phases in the order they come in. Adapt may be left out. */
export const phaseOrder = ["train", "adapt", "finetune"] as const;

export type AdaptationPhase = (typeof phaseOrder)[number];

/** How a phase uses the networks of an AdaptationPolicy. */
interface PhaseRules {
  /** The network that chooses actions. */
  readonly acts: "actor" | "actorAdapt";
  /** The network that gives the latent it acts on. */
  readonly latentFrom: "encoderPriv" | "adaptModule" | "adaptEma";
  /** The network whose memory is carried through the rollout. */
  readonly remembers: "adaptModule" | "adaptEma";
  /** Whether PPO trains the policy that acts, and the critic. */
  readonly trainsPolicy: boolean;
  /** Whether the student learns to act as the teacher does. */
  readonly matchesActions: boolean;
  /** PPO ignores the ticks of an episode up to this one, in which the policy has seen too little of it to be judged. */
  readonly skippedTicks: number;
}

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
