/** What training reads: token sequences, with everything about each token that was known when it was sampled. */

/** A row: one token sequence to train on. All arrays have one entry per token, and nothing changes once it is made. */
export interface TokenSample {
  readonly tokenIds: Int32Array;
  /** 1 at the tokens the model wrote; 0 at prompts and observations. The first token is never one of them. */
  readonly lossMask: Uint8Array;
  /** Log-probs under the distribution that the tokens were drawn from. Read at loss tokens. */
  readonly samplerLogprobs: Float32Array;
  /**
   * The version of the weights that drew the token: the number of training steps that made them. Read at loss tokens.
   */
  readonly versions: Int32Array;
  /** 1 at loss tokens that were drawn on keys and values of older weights than their own. Absent where there are none. */
  readonly onOldCache?: Uint8Array;
  /**
   * Rewards at the tokens that earned them: a turn's on its last token, the whole trajectory's on the last loss token.
   */
  readonly rewards: Float32Array;
  /** The group that the row belongs to, as a whole number. */
  readonly group: number;
  /** The trajectory of the row, numbered within the batch. One that had to be forked has several rows. */
  readonly trajectory: number;
  /** The first turn in the row. */
  readonly turn: number;
  /** The state that the first turn started from. */
  readonly stateKey: string;
  readonly isTruncated: boolean;
  /** Factor on every term of the row's loss: the importance weight of a replay. Default 1. */
  readonly weight?: number;
  /** The domain of the prompt: rewards are normalized by domain. Default "". */
  readonly domain?: string;
  /** The greedy trajectory of the group, where the recipe asked for one. */
  readonly greedy?: GreedyOutcome;
  /** Who measures the row in a run with distillation. Absent: nobody does. */
  readonly teacher?: RowTeacher;
}

/** What is known of a trajectory that is only compared with: all that the shaping of rewards looks at. */
export type GreedyOutcome = {
  /** What its turns earned, in order, the outcome with the last. */
  readonly rewards: readonly number[];
  /** Tokens that the model wrote. */
  readonly numTokens: number;
  readonly isTruncated: boolean;
};

/** The teacher of a row, and what it reads. */
export interface RowTeacher {
  /** Its name in the run. */
  readonly name: string;
  /** What it reads in place of the tokens before the first loss token. Absent: the same. The tokens from there on are the row's own. */
  readonly promptIds?: Int32Array;
  /** Log-probs that a server gave, with one entry per token of the row. Absent: the trainer measures them. */
  readonly logprobs?: Float32Array;
}

/**
 * A reply that is learned by the distillation loss alone: it was drawn in a context that the policy is to do without.
 *
 * It has no sampler log-probs. Those it was drawn with are of another context, and no ratio may be taken with them.
 */
export interface Lesson {
  /** The tokens as the policy reads them, without the context. */
  readonly tokenIds: Int32Array;
  /** 1 at the tokens of the reply. The first token is never one of them. */
  readonly lossMask: Uint8Array;
  /** What the teacher reads in place of the tokens before the first loss token. */
  readonly teacherPromptIds: Int32Array;
}

/** The rows of one training step. */
export interface SampleBatch {
  readonly samples: readonly TokenSample[];
  /** Replies to learn beside them: second tries that succeeded. Baselines and corrections never see them. */
  readonly lessons?: readonly Lesson[];
  /** The version being trained, published or not: staleness is the difference between it and a token's own version. */
  readonly version: number;
}
