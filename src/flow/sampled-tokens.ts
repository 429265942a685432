/** Tokens that a model wrote, with what is known of each. All arrays have one entry per token. */
export interface SampledTokens {
  readonly tokenIds: Int32Array;
  /** Log-probability under the distribution the token was drawn from: after temperature, filters, penalties and bias. */
  readonly samplerLogprobs: Float32Array;
  /** Log-probability under the model itself, at temperature 1. */
  readonly modelLogprobs: Float32Array;
  /** The version of the weights that drew the token. */
  readonly versions: Int32Array;
  /** Present when asked for: the likeliest alternatives of each token under the model, best first. */
  readonly topLogprobs?: readonly (readonly TokenLogprob[])[];
}

export interface TokenLogprob {
  readonly tokenId: number;
  readonly logprob: number;
}
