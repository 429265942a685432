/**
 * What a step saw of the tokens of chosen samples. It is for the record of a run; nothing that trains reads it.
 *
 * In: what forward passes gave for the rows of a batch, and the scored batch. Out: arrays per sample. The first pass over a row counts:
 * that of the anchor, before any update, or in bypass mode that of the first update with this row. Values wait on the device and are
 * read in one go.
 */

import { invariant } from "../errors/reroll-error.ts";
import type { ScoredBatch } from "../flow/token-batch.ts";
import { tensor } from "../torch/create.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { MeasuredPolicy } from "./measure-rows.ts";
import type { Grid } from "./token-rows.ts";

/** Numbers that training had for one sample: an entry per token, in memory of its own. Zero at tokens that the model did not write. */
export interface SampleNumbers {
  readonly policyLogprobs: Float32Array;
  /** In nats. */
  readonly entropies: Float32Array;
  readonly advantages: Float32Array;
  /** 1 where the loss counted the token: it was written by the model, and the recipe did not mask or reject it. */
  readonly lossMask: Uint8Array;
}

interface SeenRows extends MeasuredPolicy {
  readonly rows: readonly number[];
}

export class TrainerReading {
  readonly #grid: Grid;
  readonly #unseen: Set<number>;
  readonly #seen: SeenRows[] = [];

  /** `rows` are the samples that are asked for, by their place in the batch. */
  constructor(grid: Grid, rows: readonly number[]) {
    this.#grid = grid;
    this.#unseen = new Set(rows);
  }

  /** Keeps what a forward pass over these rows gave, for those that are asked for and were not seen before. */
  add(rows: readonly number[], { logprobs_BT, entropies_BT }: MeasuredPolicy): void {
    const places = rows.flatMap((row, place) => (this.#unseen.delete(row) ? [place] : []));
    if (places.length === 0) return;
    const pick = (values_BT: Tensor) => keep(selectRows(values_BT.detach(), places));
    this.#seen.push({
      rows: places.map((place) => rows[place]!),
      logprobs_BT: pick(logprobs_BT),
      entropies_BT: pick(entropies_BT),
    });
  }

  /** The numbers of the samples by their place in the batch, once all have been seen. */
  read({ advantages_BT, lossMask_BT }: ScoredBatch): ReadonlyMap<number, SampleNumbers> {
    invariant(this.#unseen.size === 0, `no forward pass held the rows ${[...this.#unseen].join(", ")}`);
    const parts = this.#seen.map(({ rows, logprobs_BT, entropies_BT }) =>
      tensorScope(() => {
        const policyLogprobs = this.#toSamples(logprobs_BT, rows);
        const entropies = this.#toSamples(entropies_BT, rows);
        const advantages = this.#toSamples(selectRows(advantages_BT, rows), rows);
        const lossMasks = this.#toSamples(selectRows(lossMask_BT, rows), rows);
        return rows.map((row, i): [number, SampleNumbers] => [
          row,
          {
            policyLogprobs: policyLogprobs[i]!,
            entropies: entropies[i]!,
            advantages: advantages[i]!,
            lossMask: Uint8Array.from(lossMasks[i]!),
          },
        ]);
      }),
    );
    return new Map(parts.flat());
  }

  dispose(): void {
    for (const { logprobs_BT, entropies_BT } of this.#seen) {
      logprobs_BT.dispose();
      entropies_BT.dispose();
    }
    this.#seen.length = 0;
  }

  /** From cells of the grid to the tokens of each sample. */
  #toSamples(values_BT: Tensor, rows: readonly number[]): readonly Float32Array[] {
    const { samples, starts, numColumns } = this.#grid;
    const cells = values_BT.toFloat32Array();
    return rows.map((row, i) => {
      const start = starts[row]!;
      const values = new Float32Array(samples[row]!.tokenIds.length);
      const from = i * numColumns;
      values.set(cells.subarray(from, from + values.length - start), start);
      return values;
    });
  }
}

function selectRows(values_BT: Tensor, rows: readonly number[]): Tensor {
  return values_BT.indexSelect(0, tensor([...rows], { dtype: "int64", device: values_BT.device }));
}
