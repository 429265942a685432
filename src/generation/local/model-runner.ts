/**
 * Runs the steps that the scheduler plans: tokens through the model, keys and values into the cache, scores out.
 *
 * On a GPU a step of single tokens is a recorded graph, one per batch size; prompts run as they come.
 */
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { inferenceMode } from "../../torch/autograd.ts";
import { cat, tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { canDecodeOnGpu } from "./decode-forward.ts";
import { DecodeGraphs, type LaunchedStep } from "./decode-graphs.ts";
import type { PagedCache } from "./paged-cache.ts";
import { piecesLayout } from "./paged-layout.ts";
import type { Piece } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";
import { numSteadyRows } from "./steady-rows.ts";

interface RunnerLimits {
  readonly maxRunning: number;
  readonly contextLength: number;
  /** Whether steps on the CPU are filled up, so that their size does not change what they compute. */
  readonly isSteady: boolean;
}

export class ModelRunner {
  readonly #model: CausalLm;
  readonly #cache: PagedCache;
  readonly #graphs: DecodeGraphs | null;
  readonly #isSteady: boolean;

  constructor(model: CausalLm, cache: PagedCache, limits: RunnerLimits) {
    this.#model = model;
    this.#cache = cache;
    this.#isSteady = limits.isSteady && cache.device === "cpu";
    this.#graphs = canDecodeOnGpu(model.config, cache) ? new DecodeGraphs(model, cache, limits) : null;
  }

  /**
   * Computes the pieces of a step and calls `use` with the scores after each piece that ends its sequence, [n, V], in
   * order; null when none does. The scores are gone when `use` returns.
   */
  run<Result>(pieces: readonly Piece[], use: (scores: Tensor | null, ending: readonly Piece[]) => Result): Result {
    return tensorScope(() =>
      inferenceMode(() => {
        const isSingle = (piece: Piece) => this.#graphs !== null && piece.numTokens === 1 && piece.isLast;
        const single = pieces.filter(isSingle);
        const others = pieces.filter((piece) => !isSingle(piece));
        const parts: Tensor[] = [];
        if (single.length > 0) parts.push(this.#graphs!.scores(single.map(({ sequence }) => sequence)));
        const ending = [...single, ...others.filter((piece) => piece.isLast)];
        if (others.length > 0) {
          const scores = this.#runPieces(others);
          if (scores !== null) parts.push(scores);
        }
        return use(parts.length > 1 ? cat(parts, 0) : (parts[0] ?? null), ending);
      }),
    );
  }

  /** Records what steps replay, where there is a GPU; else the first steps of each size do it. */
  prepare(): void {
    tensorScope(() => inferenceMode(() => this.#graphs?.recordAll()));
  }

  /** Whether steps of single tokens can be launched and read later. */
  get canLaunch(): boolean {
    return this.#graphs?.canDraw === true;
  }

  /** Starts a step of single tokens that draws by temperature alone, and returns at once: see DecodeGraphs.launch. */
  launch(sequences: readonly Sequence[], from: readonly number[] | null): LaunchedStep {
    return tensorScope(() => inferenceMode(() => this.#graphs!.launch(sequences, from)));
  }

  #runPieces(pieces: readonly Piece[]): Tensor | null {
    return tensorScope(() => {
      const { device } = this.#cache;
      const ids = pieces.flatMap(({ sequence: { tokens, numComputed }, numTokens }) => [
        ...tokens.subarray(numComputed, numComputed + numTokens),
      ]);
      const numRows = this.#steadyRows(ids.length, this.#model.config.width);
      const filled = [...ids, ...new Array<number>(numRows - ids.length).fill(0)];
      const ids_S = tensor(Int32Array.from(filled), [numRows], { device, dtype: "int64" });
      const hidden_SD = this.#model.forward(ids_S, piecesLayout(pieces, this.#cache, numRows));
      const ends: number[] = [];
      let start = 0;
      for (const { numTokens, isLast } of pieces) {
        start += numTokens;
        if (isLast) ends.push(start - 1);
      }
      if (ends.length === 0) return null;
      const numScores = this.#steadyRows(ends.length, this.#model.config.vocabSize);
      const picked = [...ends, ...new Array<number>(numScores - ends.length).fill(0)];
      const last = tensor(Int32Array.from(picked), [numScores], { device, dtype: "int64" });
      return this.#model.logits(hidden_SD.indexSelect(0, last)).narrow(0, 0, ends.length);
    });
  }

  #steadyRows(numRows: number, width: number): number {
    return this.#isSteady ? Math.max(numRows, numSteadyRows(width)) : numRows;
  }

  /** Frees what was recorded over the memory of the cache; it is recorded again when it is needed. */
  forget(): void {
    this.#graphs?.forget();
  }

  /** Frees the recorded graphs; the model and the cache belong to others. */
  dispose(): void {
    this.#graphs?.dispose();
  }
}
