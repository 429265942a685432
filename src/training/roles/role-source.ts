/** What a worker of roles apart from the trainer is started with. Plain data. */
import type { RecipeChoice } from "../../algorithms/recipes/table.ts";
import type { RankSource } from "../strategy/mesh.ts";
import type { TrainingOptions } from "../trainer-options.ts";
import type { CriticSource } from "../trainer-source.ts";

export interface RoleSource {
  readonly device: string;
  readonly dtype: "float32" | "bfloat16";
  /** Folder of a reference model. null: this worker has none. */
  readonly reference: string | null;
  readonly critic: CriticSource | null;
  /** What the loss of the critic is part of. */
  readonly algorithm: RecipeChoice;
  readonly training: Pick<
    TrainingOptions,
    "strategy" | "maxTokensPerMicrobatch" | "maxGradNorm" | "recompute" | "threads"
  >;
  readonly temperature: number;
  /** Scores of the policy: those that a reference has beyond them do not count. */
  readonly numScores: number;
  /** Whether the weights of the reference are in host memory except while it measures. */
  readonly referenceSleeps: boolean;
  /** Whether the critic is in host memory between steps. */
  readonly criticSleeps: boolean;
  /** See TrainerSource. */
  readonly isExact?: boolean;
  readonly numThreads?: number;
  /** Which of several workers that share these roles this is; absent for the only one. */
  readonly rank?: RankSource;
}
