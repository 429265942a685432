/**
 * Masks where draws on a GPU read them: in memory that stays in place, uploaded without anyone waiting.
 *
 * In: the mask of each row, as its guide has it. Out: the table of masks on the device, and the place of each row's mask in it. A mask is known
 * by its identity: rows that share one, and those that keep theirs from draw to draw, as inside of a string, upload it once.
 */
import { empty, pinned } from "../../torch/create.ts";
import { CudaEvent } from "../../torch/cuda.ts";
import type { Device } from "../../torch/dtype.ts";
import type { RowMasks } from "../../torch/kernels/score-tiles-kernel.ts";
import { keep } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** Masks that stay on the device, for each row of the largest step. */
const KEPT_PER_ROW = 4;

export class DeviceMasks {
  readonly #maxRows: number;
  readonly #table_KW: Tensor;
  readonly #rows_B: Tensor;
  readonly #uploads: { readonly masks_BW: Tensor; readonly rows_B: Tensor; readonly done: CudaEvent };
  /** Where a mask is, and what is in a place. A place that was given away is no longer its mask's. */
  readonly #places = new Map<Int32Array, number>();
  readonly #owners: (Int32Array | undefined)[];
  /** The place that is given away next: they go round. */
  #next = 0;

  constructor(maxRows: number, vocabSize: number, device: Device) {
    const [K, W] = [KEPT_PER_ROW * maxRows, Math.ceil(vocabSize / 32)];
    this.#maxRows = maxRows;
    this.#table_KW = keep(empty([K, W], { dtype: "int32", device }));
    this.#rows_B = keep(empty([maxRows], { dtype: "int32", device }));
    this.#uploads = {
      masks_BW: keep(pinned([maxRows, W], "int32")),
      rows_B: keep(pinned([maxRows], "int32")),
      done: new CudaEvent(),
    };
    this.#owners = new Array(K).fill(undefined);
  }

  /** Starts to upload what is not there yet. Null is for rows that may draw all tokens. Valid until the next call. */
  upload(masks: readonly (Int32Array | null)[]): RowMasks {
    const { masks_BW, rows_B, done } = this.#uploads;
    // Long done in the usual course: the draw before has been read.
    done.synchronize();
    if (this.#next + this.#maxRows > this.#owners.length) this.#next = 0;
    const start = this.#next;
    const rows = new Int32Array(this.#maxRows).fill(-1);
    masks.forEach((mask, row) => {
      if (mask !== null) rows[row] = this.#placeOf(mask, start);
    });
    const numNew = this.#next - start;
    if (numNew > 0) {
      const fresh = masks_BW.narrow(0, 0, numNew);
      this.#table_KW.narrow(0, start, numNew).copy_(fresh, { nonBlocking: true });
    }
    this.#rows_B.copy_(rows_B.writeFrom(rows), { nonBlocking: true });
    done.record();
    return { masks_KW: this.#table_KW, masks_B: this.#rows_B };
  }

  dispose(): void {
    for (const one of [this.#table_KW, this.#rows_B, ...Object.values(this.#uploads)]) one.dispose();
  }

  /** Places from the next one on may still be given away to masks of this upload, one for each row: what is there counts as gone. */
  #placeOf(mask: Int32Array, start: number): number {
    const known = this.#places.get(mask);
    if (known !== undefined && (known < this.#next || known >= start + this.#maxRows)) return known;
    const place = this.#next++;
    const before = this.#owners[place];
    if (before !== undefined && this.#places.get(before) === place) this.#places.delete(before);
    this.#owners[place] = mask;
    this.#places.set(mask, place);
    this.#uploads.masks_BW.select(0, place - start).writeFrom(mask);
    return place;
  }
}
