/** A rank of a split engine other than the first: it has its part of the model and of the cache, and computes what the first one plans. */
import { adapterPaths } from "../../../models/causal-lm/adapter-weights.ts";
import type { CausalLm } from "../../../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../../models/causal-lm/load-causal-lm.ts";
import { type WeightCuts, weightCuts } from "../../../models/causal-lm/weight-cuts.ts";
import { noGrad } from "../../../torch/autograd.ts";
import { native } from "../../../torch/binding.ts";
import { empty } from "../../../torch/create.ts";
import { emptyCudaCache } from "../../../torch/cuda.ts";
import { tensorScope } from "../../../torch/scope.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { copyWeights } from "../copy-weights.ts";
import type { EngineSource, WeightFacts } from "../engine-host.ts";
import { resolveOptions } from "../engine-options.ts";
import { mergeAdapters } from "../merge-adapters.ts";
import { ModelRunner } from "../model-runner.ts";
import { cacheOf, type PagedCache } from "../paged-cache.ts";
import { promptLogprobs } from "../prompt-logprobs.ts";
import { WeightPlaces } from "../weight-places.ts";
import { withFolderWeights } from "../weights-from-folder.ts";
import { type EngineSplit, type JoinedRank, joinRanks } from "./join-ranks.ts";
import { unpackWork } from "./step-plan.ts";

/** What a rank is started from: what the engine is, and where it meets the others. */
export interface RankSource extends EngineSource {
  readonly split: EngineSplit;
  readonly rank: { readonly index: number; readonly port: number };
}

/** Such a rank, as the first one calls it. Where something that is told fails, its process ends. */
export interface EngineRank {
  /** Takes part in what the first rank does next, by its plan; or by one of so many numbers, which it broadcasts. */
  work(plan: Int32Array | number): void;
  /** Gives the memory of the cache back until the next step. */
  sleep(): void;
  /** Reads its part of the weights of a Hugging Face folder. */
  loadWeights(folder: string): Promise<void>;
  /** Resolves when it is closed. */
  stay(): Promise<void>;
  close(): Promise<void>;
}

export class HostedRank implements EngineRank {
  readonly #source: RankSource;
  readonly #joined: JoinedRank;
  readonly #model: CausalLm;
  readonly #cache: PagedCache;
  readonly #runner: ModelRunner;
  readonly #places: WeightPlaces;
  #leave: () => void = () => {};

  private constructor(source: RankSource, joined: JoinedRank, model: CausalLm) {
    const options = resolveOptions(model, source.options ?? {});
    this.#source = source;
    this.#joined = joined;
    this.#model = model;
    this.#cache = cacheOf(model, options);
    this.#runner = new ModelRunner(model, this.#cache, options);
    this.#places = new WeightPlaces(model);
  }

  /** Meets the others, and loads its part of the model. */
  static async open(source: RankSource): Promise<HostedRank> {
    const { folder, device = "cpu", dtype, numThreads, split, rank } = source;
    if (numThreads !== undefined) native.setNumThreads(numThreads);
    const joined = await joinRanks(split, rank.index, rank.port);
    const model = loadCausalLm(folder, { device, spread: joined.spread, ...(dtype === undefined ? {} : { dtype }) });
    return new HostedRank(source, joined, model);
  }

  work(plan: Int32Array | number): void {
    const work = unpackWork(typeof plan === "number" ? this.#receivePlan(plan) : plan);
    if (work.kind === "score") {
      promptLogprobs(this.#model, work.promptIds);
      return;
    }
    this.#cache.allocate();
    this.#cache.copy(work.blocks, work.stateRows);
    tensorScope(() => noGrad(() => void this.#runner.runPieces(work.pieces, work.ids)));
  }

  #receivePlan(length: number): Int32Array {
    const { plans } = this.#joined;
    return Int32Array.from(tensorScope(() => plans.broadcast_(empty([length], { dtype: "int32" }), 0).toArray()));
  }

  sleep(): void {
    this.#cache.dispose();
    if (this.#cache.device.startsWith("cuda")) emptyCudaCache();
  }

  async loadWeights(folder: string): Promise<void> {
    withFolderWeights(folder, (weights) => copyWeights(this.#model, weights));
  }

  /** The part of each weight that is here. */
  get cuts(): WeightCuts {
    return weightCuts(this.#model);
  }

  /** Adapters, or all weights, in whole; of others see `beginUpdate`. */
  async updateWeights(_version: number, weights: ReadonlyMap<string, Tensor>): Promise<void> {
    if (adapterPaths(weights).length > 0) mergeAdapters(this.#model, this.#source.folder, weights);
    else copyWeights(this.#model, weights);
  }

  /** Memory for weights that come in its part of them: see WeightPlaces. The first rank computes nothing meanwhile. */
  beginUpdate(facts: readonly WeightFacts[]): ReadonlyMap<string, Tensor> | null {
    return this.#places.begin(facts);
  }

  endUpdate(version: number): void {
    this.#places.end(version);
  }

  stay(): Promise<void> {
    return new Promise((resolve) => {
      this.#leave = resolve;
    });
  }

  async close(): Promise<void> {
    this.#runner.dispose();
    this.#cache.dispose();
    this.#model.dispose();
    this.#joined.dispose();
    this.#leave();
  }
}
