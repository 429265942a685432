/** A decoder and the training step that the benchmarks measure: forward, cross-entropy, backward, clip, AdamW. */
import { CausalLm } from "../src/models/causal-lm/causal-lm.ts";
import { type PresetName, presetConfig } from "../src/models/causal-lm/presets.ts";
import { paddedLayout } from "../src/models/causal-lm/token-layout.ts";
import { weightedCrossEntropy } from "../src/models/causal-lm/token-logprobs.ts";
import { full, randint } from "../src/torch/create.ts";
import { AdamW } from "../src/torch/optim/adamw.ts";
import { clipGradNorm } from "../src/torch/optim/clip-grad-norm.ts";
import { Generator } from "../src/torch/random.ts";
import { tensorScope } from "../src/torch/scope.ts";
import type { Tensor } from "../src/torch/tensor.ts";

/** What is trained on what: a preset with a vocabulary of this size, on batches of `rows` times `tokensPerRow` tokens. */
export interface Workload {
  readonly preset: PresetName;
  readonly vocabSize: number;
  readonly rows: number;
  readonly tokensPerRow: number;
}

/** The settings of the optimizer, which python/train_step.py is told. */
export const settings = { lr: 3e-4, weightDecay: 0.1, maxGradNorm: 1 } as const;

/** Tokens and the tokens that follow them, row after row. */
export interface Batch {
  readonly ids_S: Tensor;
  readonly targets_S: Tensor;
}

/** A model with seeded weights and seeded data, trained a step at a time. */
export class DecoderTraining {
  readonly model: CausalLm;
  readonly batches: readonly Batch[];
  readonly #optimizer: AdamW;
  readonly #weights_S: Tensor;
  readonly #workload: Workload;
  #numSteps = 0;

  constructor(workload: Workload) {
    const { preset, vocabSize, rows, tokensPerRow } = workload;
    const generator = new Generator(0);
    const numTokens = rows * tokensPerRow;
    const draw = () => randint(0, vocabSize, [numTokens], { generator });
    this.#workload = workload;
    this.model = new CausalLm(presetConfig(preset, vocabSize)).initialize(generator);
    this.batches = Array.from({ length: 4 }, () => ({ ids_S: draw(), targets_S: draw() }));
    this.#weights_S = full([numTokens], 1 / numTokens);
    const { lr, weightDecay } = settings;
    this.#optimizer = new AdamW(this.model.namedParameters(), { lr, weightDecay });
  }

  /** One step on the next batch; returns its loss. */
  step(): number {
    return tensorScope(() => {
      const { model } = this;
      const [optimizer, workload] = [this.#optimizer, this.#workload];
      const { ids_S, targets_S } = this.batches[this.#numSteps++ % this.batches.length]!;
      const hidden_SD = model.forward(ids_S, paddedLayout(workload.rows, workload.tokensPerRow));
      const { loss } = weightedCrossEntropy(hidden_SD, model.head, targets_S, this.#weights_S);
      loss.backward();
      clipGradNorm(model.parameters(), settings.maxGradNorm);
      optimizer.step();
      optimizer.zeroGrad();
      return loss.item();
    });
  }
}
