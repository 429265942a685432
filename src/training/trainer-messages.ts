/** What a trainer's thread and its owner say to each other. Plain data: it crosses threads by structured clone. */
import type { ErrorCode } from "../errors/error-codes.ts";
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import type { TensorParcel } from "../torch/parcel.ts";
import type { StepOptions } from "./token-trainer.ts";

export type TrainerCall =
  | { readonly kind: "step"; readonly batch: SampleBatch; readonly options: StepOptions }
  | { readonly kind: "supervised"; readonly samples: readonly TokenSample[] }
  | { readonly kind: "weights" }
  | { readonly kind: "saveModel" | "saveMerged" | "saveState" | "loadState"; readonly folder: string }
  | { readonly kind: "close" };

export interface ToTrainer {
  readonly id: number;
  readonly call: TrainerCall;
}

export type FromTrainer =
  | { readonly kind: "ready" }
  | { readonly kind: "done"; readonly id: number; readonly result: unknown }
  | {
      readonly kind: "failed";
      readonly id: number;
      readonly error: { readonly code: ErrorCode; readonly message: string };
    };

export interface NamedParcel {
  readonly name: string;
  readonly parcel: TensorParcel;
}
