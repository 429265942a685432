/** Scores over the whole vocabulary a few tokens at a time, and what their gradients add up to. */
import { RerollError } from "../../errors/reroll-error.ts";
import { empty, zeros } from "../../torch/create.ts";
import { bytesOf, type Device } from "../../torch/dtype.ts";
import { hasOp, op } from "../../torch/operator.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { hasWideScores } from "./token-scores.ts";

/** Throws for a temperature or a chunk that scores cannot be computed with. */
export function expectChunks(temperature: number, chunkTokens: number): void {
  if (!(temperature > 0 && temperature < Infinity)) {
    throw new RerollError("INVALID_ARGUMENT", `temperature must be above 0 and finite: got ${temperature}.`);
  }
  if (!Number.isInteger(chunkTokens) || chunkTokens < 1) {
    throw new RerollError("INVALID_ARGUMENT", `chunkTokens must be an integer of at least 1: got ${chunkTokens}.`);
  }
}

/** Takes one chunk out of a tensor with a row per token. */
export type Part = (x: Tensor) => Tensor;

/** Turns gradients of scores, a chunk at a time, into gradients of the hidden states and the output matrix. */
export class ScoreGradientSums {
  readonly #hidden: Tensor;
  readonly #head: Tensor;
  readonly #gradHidden: Tensor;
  readonly #gradHead: Tensor | null;
  /** Whether products add themselves to wider sums, which saves writing and reading them in 16 bits. */
  readonly #isWide: boolean;
  #isEmpty = true;

  constructor(hidden: Tensor, head: Tensor, isHeadTrained: boolean) {
    this.#hidden = hidden;
    this.#head = head;
    this.#gradHidden = empty(hidden.shape, { dtype: hidden.dtype, device: hidden.device });
    // Added up in float32: sums of many 16-bit parts lose digits.
    const dtype = head.dtype === "float64" ? "float64" : "float32";
    this.#isWide = hasWideScores(hidden) && ["aten::mm.dtype_out", "aten::addmm.dtype_out"].every(hasOp);
    // The first product overwrites what is there; without any token there is none.
    const make = this.#isWide && hidden.size(0) > 0 ? empty : zeros;
    this.#gradHead = isHeadTrained ? make(head.shape, { dtype, device: head.device }) : null;
  }

  /** `factors_S`, where given, are still to be multiplied with the rows of the gradient. */
  add(part: Part, gradScores: Tensor, factors_S: Tensor | null = null): void {
    const scaled = (rows: Tensor) => (factors_S === null ? rows : rows.mul(factors_S.unsqueeze(1)));
    const gradHidden = part(this.#gradHidden);
    if (this.#isWide && factors_S === null) ops.mmInto(gradScores, this.#head, gradHidden);
    else gradHidden.copy_(scaled(gradScores.mm(this.#head)));
    if (this.#gradHead === null) return;
    const [scores, hidden] = [gradScores.t(), scaled(part(this.#hidden)).to(this.#hidden.dtype)];
    if (!this.#isWide) this.#gradHead.add_(scores.mm(hidden));
    else if (this.#isEmpty) ops.wideMmInto(scores, hidden, "float32", this.#gradHead);
    else ops.addmmInto(this.#gradHead, scores, hidden, "float32", 1, 1, this.#gradHead);
    this.#isEmpty = false;
  }

  results(): [gradHidden: Tensor, gradHead: Tensor | null] {
    return [this.#gradHidden, this.#gradHead?.to(this.#head.dtype) ?? null];
  }

  /** The same as it was added up: see `scaledTo`. */
  wideResults(): [gradHidden: Tensor, gradHead: Tensor | null] {
    return [this.#gradHidden, this.#gradHead];
  }
}

/**
 * Runs `body` on pieces of about `size` tokens, as equal as they can be, freeing what each piece made. Large pieces begin where the tiles of products on
 * a GPU do: a step of 16,384 tokens took longer in three pieces of 5,461 than in four of 4,096.
 */
export function mapChunks<Result>(x_SD: Tensor, size: number, body: (part: Part) => Result): Result[] {
  const total = x_SD.size(0);
  const count = Math.max(1, Math.ceil(total / size));
  const step = x_SD.device !== "cpu" && total / count >= 8 * tileRows ? tileRows : 1;
  const startOf = (i: number) => (i === count ? total : step * Math.floor((i * total) / count / step));
  return Array.from({ length: count }, (_, i) => {
    const start = startOf(i);
    const length = startOf(i + 1) - start;
    return tensorScope(() => body((x) => x.narrow(0, start, length)));
  });
}

const tileRows = 128;

/** Bytes of scores that a chunk has room for. On a GPU the sums of a large output matrix are read and written with every chunk: few are better. */
export const chunkBytes = { cpu: 64e6, gpu: 2.5e9 } as const;

/** Tokens per chunk that keep its scores at 64 MB on the CPU and 2.5 GB on a GPU. */
export function defaultChunk(head_VD: Tensor): number {
  return chunkFor({ device: head_VD.device, bytesPerToken: bytesOf(head_VD.dtype) * head_VD.size(0) });
}

/** The same for scores of another size. */
export function chunkFor({
  device,
  bytesPerToken,
}: {
  readonly device: Device;
  readonly bytesPerToken: number;
}): number {
  const bytes = device === "cpu" ? chunkBytes.cpu : chunkBytes.gpu;
  return Math.max(1, Math.floor(bytes / bytesPerToken));
}

const ops = {
  mmInto: op("aten::mm.out"),
  wideMmInto: op("aten::mm.dtype_out"),
  addmmInto: op("aten::addmm.dtype_out"),
} as const;
