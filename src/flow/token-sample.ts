/** What training reads: token sequences, with everything about each token that was known when it was sampled. */

/** One trainable sequence. All arrays have one entry per token; nothing is changed once it is made. */
export interface TokenSample {
  readonly tokenIds: Int32Array;
  /** 1 at the tokens the model wrote; 0 at prompts and observations. The first token is never one of them. */
  readonly lossMask: Uint8Array;
  /** Read at loss tokens. */
  readonly samplerLogprobs: Float32Array;
  /** The version of the weights that drew the token: the training steps that made them. Read at loss tokens. */
  readonly versions: Int32Array;
  /** Where they were earned: that of a turn on its last token, that of the whole on the last loss token. */
  readonly rewards: Float32Array;
  /** The group that it belongs to: a whole number, the same for all its samples. */
  readonly group: number;
  /** Numbered within the batch. A trajectory that had to be forked has several samples. */
  readonly trajectory: number;
  /** The first turn that this sample holds. */
  readonly turn: number;
  /** The state that its first turn started from. */
  readonly stateKey: string;
  readonly isTruncated: boolean;
  /** What every term of its loss is multiplied by: the importance weight of a replay. Default 1. */
  readonly weight?: number;
}

/** The input of one training step. */
export interface SampleBatch {
  readonly samples: readonly TokenSample[];
  /** The version that is being trained, published or not: what the tokens' own are compared with. */
  readonly version: number;
}
