/**
 * What every step of a tokenizer's decoder is here: a stream from pieces to pieces.
 *
 * In: token strings, one at a time. Out: through `emit`, pieces whose text no later token can change.
 * A stage keeps what is still open and gives it out on `flush`, so a whole decode and a streamed one run the same code.
 */

/** Receives one piece. */
export type Emit = (piece: string) => void;

/** One step of a decoder. Each piece costs O(its length); nothing already emitted is read again. */
export interface DecodeStage {
  push(piece: string): void;
  /** Emits what was held back. The stage is then as new. */
  flush(): void;
  /** For stages whose tokens mostly stand for themselves: those texts, which may be emitted without them while nothing is held back. */
  readonly plain?: PlainTokens;
}

/** Tokens whose text does not depend on their neighbours. */
export interface PlainTokens {
  /** Whether nothing is held back. */
  readonly isWhole: boolean;
  /** The text that a token has whatever comes before or after it, where it is ASCII; null for one that has none. */
  textOf(token: string): string | null;
}

/** Starts a stage that writes to `emit`. */
export type DecodeStageFactory = (emit: Emit) => DecodeStage;

/** The steps of one decoder, in the order in which pieces pass through them. */
export type DecodePlan = readonly DecodeStageFactory[];
