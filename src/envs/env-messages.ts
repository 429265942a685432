/** What a thread of environments and its owner say to each other. Plain data: it crosses threads by structured clone. */
import type { ErrorCode } from "../errors/error-codes.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { EnvStep, Opening, Reply } from "./text-env.ts";

/** Where a thread gets its environments from. */
export interface EnvSource {
  /** The address or the path of a module. */
  readonly module: string;
  /** A function of that module, from the options to an `EnvFactory`. */
  readonly exportName: string;
  readonly options: unknown;
}

/** Every request but "abort" is answered with its id. "abort" carries the id of the request that it cuts short. */
export type ToEnvThread =
  | {
      readonly kind: "make";
      readonly id: number;
      readonly episode: number;
      readonly prompt: Prompt;
      readonly seed: number;
    }
  | { readonly kind: "start"; readonly id: number; readonly episode: number }
  | { readonly kind: "step"; readonly id: number; readonly episode: number; readonly reply: Reply }
  | { readonly kind: "end"; readonly id: number; readonly episode: number }
  | { readonly kind: "close"; readonly id: number }
  | { readonly kind: "abort"; readonly id: number };

/** "ready" or "broken" comes first. */
export type FromEnvThread =
  | { readonly kind: "ready" }
  | { readonly kind: "broken"; readonly error: EnvErrorMessage }
  | { readonly kind: "done"; readonly id: number; readonly answer: EnvAnswer }
  | { readonly kind: "failed"; readonly id: number; readonly error: EnvErrorMessage };

/** What a request gives: the part that belongs to its kind. */
export interface EnvAnswer {
  readonly opening?: Opening;
  readonly step?: EnvStep;
  /** What the environment renders now, where it does. */
  readonly picture?: string;
}

/** An error as data. `code` is null for errors that are not reroll's own. */
export interface EnvErrorMessage {
  readonly code: ErrorCode | null;
  readonly message: string;
}
