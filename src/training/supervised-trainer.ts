/** Supervised steps: the model learns to write the loss tokens. For warm starts and fine-tuning on given replies. */
import { RerollError } from "../errors/reroll-error.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { weightedCrossEntropy } from "../models/causal-lm/token-logprobs.ts";
import { full, stack } from "../torch/create.ts";
import { clipGradNorm } from "../torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { applySchedule, type Schedule } from "../torch/optim/schedule.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import { forwardParts, gridOf, packTokens } from "./token-rows.ts";
import type { StepReport } from "./token-trainer.ts";
import type { TrainerRanks } from "./trainer-ranks.ts";

interface SupervisedTrainerParts {
  readonly model: CausalLm;
  readonly optimizer: Optimizer;
  /** Factor on the learning rate, by the number of updates done. */
  readonly schedule: Schedule;
  /** The other ranks, when the samples are spread over several. */
  readonly ranks?: TrainerRanks | undefined;
  readonly options: {
    readonly maxTokensPerMicrobatch: number;
    readonly maxGradNorm: number;
    readonly recompute: boolean;
  };
}

export interface SupervisedState {
  readonly numUpdates: number;
  readonly numSkippedInRow: number;
}

export class SupervisedTrainer {
  readonly #parts: SupervisedTrainerParts;
  #numUpdates = 0;
  #numSkippedInRow = 0;

  constructor(parts: SupervisedTrainerParts) {
    this.#parts = parts;
  }

  /** What goes on from one update to the next, beside weights and optimizer. */
  get state(): SupervisedState {
    return { numUpdates: this.#numUpdates, numSkippedInRow: this.#numSkippedInRow };
  }

  restore({ numUpdates, numSkippedInRow }: SupervisedState): void {
    this.#numUpdates = numUpdates;
    this.#numSkippedInRow = numSkippedInRow;
  }

  /**
   * One update on these samples: the mean of -log p over all their loss tokens, those of other ranks among them. Skipped where
   * the loss or its gradients are not finite: weights and optimizer stay as they are, and the schedule moves on.
   */
  async step(samples: readonly TokenSample[]): Promise<StepReport> {
    const { model, optimizer, schedule, ranks, options } = this.#parts;
    const own = samples.reduce((sum, { lossMask }) => sum + lossMask.reduce((total, one) => total + one, 0), 0);
    const numTokens = await sumOver(ranks, own);
    if (numTokens === 0) throw new RerollError("EMPTY_BATCH", "The batch has no loss tokens to learn from.");
    applySchedule(optimizer, schedule(this.#numUpdates));
    optimizer.zeroGrad();
    const grid = gridOf(samples);
    const everyRow = samples.map((_, row) => row);
    const losses = forwardParts(grid, everyRow, options.maxTokensPerMicrobatch).map((rows) =>
      tensorScope(() => {
        const packed = packTokens(grid, rows, model.embedding.device);
        const hidden_SD = model.forward(packed.ids_S, packed.layout, { recompute: options.recompute });
        const hidden_ND = hidden_SD.indexSelect(0, packed.before_N);
        const weights_N = full([packed.targets_N.size(0)], 1 / numTokens, { device: hidden_ND.device });
        const { loss } = weightedCrossEntropy(hidden_ND, model.head, packed.targets_N, weights_N);
        loss.backward();
        return keep(loss.detach());
      }),
    );
    await ranks?.reduceGradients();
    const [ownLoss, norm] = tensorScope(() => {
      const total = clipGradNorm(model.trainableParameters(), options.maxGradNorm);
      return stack([stack(losses).sum(), total.to("float32")]).toArray() as [number, number];
    });
    for (const part of losses) part.dispose();
    const loss = await sumOver(ranks, ownLoss);
    const isSound = Number.isFinite(loss) && Number.isFinite(norm);
    if (isSound) optimizer.step();
    optimizer.zeroGrad();
    this.#numUpdates++;
    this.#numSkippedInRow = isSound ? 0 : this.#numSkippedInRow + 1;
    const lr = optimizer.groups[0]?.lr ?? 0;
    return {
      numUpdates: 1,
      numSkippedInRow: this.#numSkippedInRow,
      metrics: {
        ...(isSound && { "supervised/loss": loss, "supervised/grad_norm": norm }),
        "supervised/skipped_updates": isSound ? 0 : 1,
        "supervised/lr": lr,
        "supervised/tokens": numTokens,
      },
    };
  }
}

async function sumOver(ranks: TrainerRanks | undefined, own: number): Promise<number> {
  const all = ranks === undefined ? [own] : await ranks.exchange(own);
  return all.reduce((sum, value) => sum + value, 0);
}
