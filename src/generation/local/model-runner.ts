/**
 * Runs the steps that the scheduler plans: tokens through the model, keys and values into the cache, scores out.
 *
 * On a GPU a step of single tokens is a recorded graph, one per batch size; prompts run as they come.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../../models/causal-lm/config.ts";
import { type DecoderFeatures, usedFeatures } from "../../models/causal-lm/decoder-features.ts";
import { inferenceMode, noGrad } from "../../torch/autograd.ts";
import { cat, tensor } from "../../torch/create.ts";
import { emptyCudaCache } from "../../torch/cuda.ts";
import { isExact, minExactRows } from "../../torch/exact.ts";
import { tensorScope } from "../../torch/scope.ts";
import { steadyProducts } from "../../torch/steady-products.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { promptForward } from "./decode-forward.ts";
import { DecodeGraphs, type LaunchedStep } from "./decode-graphs.ts";
import { decodeProblem, decodingWords, splitDecoding } from "./decode-path.ts";
import type { PagedCache } from "./paged-cache.ts";
import { piecesLayout, type StepPiece } from "./paged-layout.ts";
import { promptLogprobs } from "./prompt-logprobs.ts";
import type { CacheCopy, Piece } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";
import type { OtherRanks } from "./split/other-ranks.ts";
import { wholeScores } from "./split/whole-scores.ts";
import { numSteadyRows } from "./steady-rows.ts";

interface RunnerLimits {
  readonly maxRunning: number;
  readonly contextLength: number;
  /** Whether steps on the CPU are filled up, so that their size does not change what they compute. */
  readonly isSteady: boolean;
  /** The ranks that the engine is split over, beside this one, where this is the first. Absent: there are none, or this is another one. */
  readonly others?: OtherRanks | undefined;
}

export class ModelRunner {
  readonly #model: CausalLm;
  readonly #cache: PagedCache;
  readonly #graphs: DecodeGraphs | null;
  readonly #isSteady: boolean;
  readonly #others: OtherRanks | undefined;
  /** Where the model is split, gradients are off only: threads of a process group may not write to tensors of inference. */
  readonly #withoutGradients: <Result>(body: () => Result) => Result;
  /** How it decodes: see decodingWords. */
  readonly decoding: string | null;

  constructor(model: CausalLm, cache: PagedCache, limits: RunnerLimits) {
    this.#model = model;
    this.#cache = cache;
    this.#isSteady = limits.isSteady && cache.device === "cpu";
    this.#others = limits.others;
    const splitProblem = splitWords(model);
    this.#withoutGradients = splitProblem === null ? inferenceMode : noGrad;
    const problem = splitProblem ?? decodeProblem(model.config, cache);
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
      this.#withoutGradients(() => {
        const isSingle = (piece: Piece) => this.#graphs !== null && piece.numTokens === 1 && piece.isLast;
        const single = pieces.filter(isSingle);
        const others = pieces.filter((piece) => !isSingle(piece));
        const parts: Tensor[] = [];
        if (single.length > 0) parts.push(this.#graphs!.scores(single.map(({ sequence }) => sequence)));
        const ending = [...single, ...others.filter((piece) => piece.isLast)];
        if (others.length > 0) {
          const ids = tokensOf(others);
          const compute = () => this.runPieces(others, ids);
          const scores = this.#others === undefined ? compute() : this.#others.step(others, ids, compute);
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
    return tensorScope(() => inferenceMode(() => this.#graphs!.launch(sequences, from)));
  }

  /** The log-probs of a prompt's tokens: see promptLogprobs. */
  scorePrompt(promptIds: Int32Array): Float32Array {
    const compute = () => promptLogprobs(this.#model, promptIds);
    return this.#others === undefined ? compute() : this.#others.score(promptIds, compute);
  }

  /** Copies in the cache what others need, once a step has computed it. */
  copy(blocks: readonly CacheCopy[], stateRows: readonly CacheCopy[]): void {
    this.#cache.copy(blocks, stateRows);
    this.#others?.copy(blocks, stateRows);
  }

  /** Whether nothing more can be computed: see OtherRanks. */
  get isBroken(): boolean {
    return this.#others?.isBroken === true;
  }

  /** The scores after pieces of these tokens, end to end: what `run` does on each rank. Null where no piece ends, and on ranks that draw nothing. */
  runPieces(pieces: readonly StepPiece[], tokens: Int32Array): Tensor | null {
    const compute = () => this.#scoresAfter(pieces, tokens);
    return this.#isSteady ? steadyProducts("filled up", compute) : compute();
  }

  #scoresAfter(pieces: readonly StepPiece[], tokens: Int32Array): Tensor | null {
    return tensorScope(() => {
      const { device } = this.#cache;
      const { count: numRanks } = this.#model.spread.tensor;
      const numRows = this.#steadyRows(tokens.length, this.#model.config.width / numRanks);
      const ids = new Int32Array(numRows);
      ids.set(tokens);
      const ids_S = tensor(ids, [numRows], { device });
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
      const numScores = this.#steadyRows(ends.length, this.#model.config.vocabSize / numRanks);
      // Where every token ends a piece, the rows are those of the step.
      if (ends.length === numRows && numScores === numRows) return wholeScores(this.#model, hidden_SD);
      const picked = new Int32Array(numScores);
      picked.set(ends);
      const last = tensor(picked, [numScores], { device });
      return wholeScores(this.#model, hidden_SD.indexSelect(0, last))?.narrow(0, 0, ends.length) ?? null;
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

  /** Gives the memory of the cache back, and of the caches of other ranks. */
  sleep(): void {
    this.forget();
    this.#cache.dispose();
    this.#others?.sleep();
    if (this.#cache.device.startsWith("cuda")) emptyCudaCache();
  }

  /** Frees the recorded graphs; the model and the cache belong to others. */
  dispose(): void {
    this.#graphs?.dispose();
  }
}

/** The tokens of pieces, end to end. */
function tokensOf(pieces: readonly Piece[]): Int32Array {
  const ids = new Int32Array(pieces.reduce((sum, { numTokens }) => sum + numTokens, 0));
  let filled = 0;
  for (const { sequence, numTokens } of pieces) {
    const { tokens, numComputed } = sequence;
    ids.set(tokens.subarray(numComputed, numComputed + numTokens), filled);
    filled += numTokens;
  }
  return ids;
}

/** Why a model that is split is not decoded through CUDA graphs; null for one that is all here. */
function splitWords({ spread: { tensor, expert } }: CausalLm): string | null {
  return tensor.count * expert.count === 1 ? null : splitDecoding;
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
