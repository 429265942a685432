/** What the engine's thread and its owner say to each other. Plain data: it crosses threads by structured clone. */
import type { ErrorCode } from "../../errors/error-codes.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { TensorParcel } from "../../torch/parcel.ts";
import type { RequestLimits } from "../check-request.ts";
import type { EngineStatus } from "../engine.ts";
import type { Finish, Generation, SampledTokens, Sampling } from "../generate.ts";
import type { EngineOptions } from "./engine-options.ts";

/** Where the thread gets its model from. */
export interface EngineSource {
  /** A Hugging Face folder, or a .gguf file. */
  readonly folder: string;
  /** Default "cpu". */
  readonly device?: string;
  /** Default: the type that the model's config states. */
  readonly dtype?: "float32" | "bfloat16" | "float16";
  /** The folder of the tokenizer, for stop strings; absent for an engine without. */
  readonly tokenizerFolder?: string;
  /** The version of the first weights. Default 0. */
  readonly version?: number;
  readonly options?: EngineOptions;
  /** Threads of one operator in the engine's thread. Default: libtorch's own choice. */
  readonly numThreads?: number;
}

/** A request without what cannot be cloned: its signal and callback stay with the owner. */
export interface RequestMessage {
  readonly promptIds: Int32Array<ArrayBuffer>;
  readonly sampling: Sampling;
  readonly sessionId?: string;
  readonly numTopLogprobs?: number;
  /** Whether the owner wants tokens as they come. */
  readonly isStreaming: boolean;
  /** Whether it was aborted before it was sent. */
  readonly isAborted: boolean;
}

export interface NamedParcel {
  readonly name: string;
  readonly parcel: TensorParcel;
}

/** Sent as lists, in order. All but "abort" and "resume" are answered by an event with their id. */
export type ToEngine =
  | { readonly kind: "generate"; readonly id: number; readonly request: RequestMessage }
  | { readonly kind: "abort"; readonly id: number }
  | { readonly kind: "resume" }
  | { readonly kind: "pause" | "abortAll" | "close"; readonly id: number }
  | {
      readonly kind: "weights";
      readonly id: number;
      readonly version: number;
      readonly weights: readonly NamedParcel[];
    };

/** "ready" or "broken" comes first, then news. */
export type FromEngine =
  | { readonly kind: "ready"; readonly status: EngineStatus; readonly limits: RequestLimits }
  | { readonly kind: "broken"; readonly error: ErrorMessage }
  | { readonly kind: "news"; readonly events: readonly EngineEvent[]; readonly status: EngineStatus };

export type EngineEvent =
  | { readonly kind: "tokens"; readonly id: number; readonly tokens: SampledTokens }
  | {
      readonly kind: "generation";
      readonly id: number;
      readonly generation: Omit<Generation, "finish">;
      readonly finish: FinishMessage;
    }
  | { readonly kind: "done"; readonly id: number }
  | { readonly kind: "refused"; readonly id: number; readonly error: ErrorMessage };

/** An error as data. */
interface ErrorMessage {
  readonly code: ErrorCode;
  readonly message: string;
}

type FinishMessage = Exclude<Finish, { kind: "failed" }> | { readonly kind: "failed"; readonly error: ErrorMessage };

export function packError(error: unknown): ErrorMessage {
  if (error instanceof RerollError) return { code: error.code, message: error.message };
  return { code: "INTERNAL", message: error instanceof Error ? error.message : String(error) };
}

export function unpackError({ code, message }: ErrorMessage): RerollError {
  return new RerollError(code, message);
}

export function packFinish(finish: Finish): FinishMessage {
  return finish.kind === "failed" ? { kind: "failed", error: packError(finish.error) } : finish;
}

export function unpackFinish(finish: FinishMessage): Finish {
  return finish.kind === "failed" ? { kind: "failed", error: unpackError(finish.error) } : finish;
}
