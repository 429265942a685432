/**
 * Runs the steps that the scheduler plans: tokens through the model, keys and values into the cache, scores out.
 *
 * On a GPU a step of single tokens is a recorded graph, one per batch size; prompts run as they come.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../../models/causal-lm/config.ts";
import { type DecoderFeatures, usedFeatures } from "../../models/causal-lm/decoder-features.ts";
import { inferenceMode } from "../../torch/autograd.ts";
import { cat, tensor } from "../../torch/create.ts";
import { isExact, minExactRows } from "../../torch/exact.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { promptForward } from "./decode-forward.ts";
import { DecodeGraphs, type LaunchedStep } from "./decode-graphs.ts";
import { decodeProblem, decodingWords } from "./decode-path.ts";
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
  /** How it decodes: see decodingWords. */
  readonly decoding: string | null;

  constructor(model: CausalLm, cache: PagedCache, limits: RunnerLimits) {
    this.#model = model;
    this.#cache = cache;
    this.#isSteady = limits.isSteady && cache.device === "cpu";
    const problem = decodeProblem(model.config, cache);
    this.decoding = decodingWords(cache.device, problem);
    this.#graphs = problem === null ? new DecodeGraphs(model, cache, limits) : null;
    if (isExact()) expectExactModel(model.config, this.#graphs !== null);
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

  /** Records it anew, where other weights are read from now on. */
  prepareAgain(): void {
    this.forget();
    this.prepare();
  }

  /** Whether steps of single tokens can be launched and read later. */
  get canLaunch(): boolean {
    return this.#graphs?.canDraw === true;
  }

  /** Starts a step of single tokens that draws by temperature alone, or by masks too, and returns at once: see DecodeGraphs.launch. */
  launch(sequences: readonly Sequence[], from: readonly number[] | null): LaunchedStep {
    const inScope = <Result>(body: () => Result) => tensorScope(() => inferenceMode(body));
    const step = inScope(() => this.#graphs!.launch(sequences, from));
    return { ...step, draw: (masks) => inScope(() => step.draw(masks)) };
  }

  #runPieces(pieces: readonly Piece[]): Tensor | null {
    return tensorScope(() => {
      const { device } = this.#cache;
      const numTokens = pieces.reduce((sum, piece) => sum + piece.numTokens, 0);
      const numRows = this.#steadyRows(numTokens, this.#model.config.width);
      const ids = new Int32Array(numRows);
      let filled = 0;
      for (const { sequence, numTokens } of pieces) {
        const { tokens, numComputed } = sequence;
        ids.set(tokens.subarray(numComputed, numComputed + numTokens), filled);
        filled += numTokens;
      }
      const ids_S = tensor(ids, [numRows], { device, dtype: "int64" });
      const layout = piecesLayout(pieces, this.#cache, { numTokens: numRows, isSteady: this.#isSteady });
      const hidden_SD =
        this.#graphs !== null && !isExact() && this.#model.config.features.experts === null
          ? promptForward(this.#model, this.#graphs.rotary, ids_S, layout)
          : this.#model.forward(ids_S, layout);
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
    if (this.#isSteady) return Math.max(numRows, numSteadyRows(width));
    return isExact() ? Math.max(numRows, minExactRows) : numRows;
  }

  /**
   * Lets `change` write weights. Where it brings or takes away parameters, as the first adapters of quantized weights are, what was recorded
   * is recorded again: it reads those that were there then.
   */
  changeWeights(change: (model: CausalLm) => void): void {
    const before = this.#model.parameters();
    change(this.#model);
    const after = new Set(this.#model.parameters());
    if (after.size !== before.length || !before.every((parameter) => after.has(parameter))) this.forget();
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

/** What attention and MLPs may be for exact kernels: one sum over all that came before, and products of whole matrices. */
const inexact: ReadonlySet<string> = new Set<keyof DecoderFeatures>([
  "slidingWindow",
  "attentionScale",
  "attentionSoftCap",
  "hasAttentionSinks",
  "linearAttention",
  "experts",
]);

function expectExactModel({ family, features }: CausalLmConfig, canDecode: boolean): void {
  const found = usedFeatures(features).filter((name) => inexact.has(name));
  if (canDecode && found.length === 0) return;
  throw new RerollError(
    "UNSUPPORTED_FEATURE",
    `exact is true, and this ${family} model ${found.length > 0 ? `has ${found.join(", ")}` : "is not in 16 bits on a GPU, or is of a shape that the CUDA decode path does not take"}: its log-probabilities in the engine cannot equal those of the trainer. Leave exact out.`,
    { family, found },
  );
}
