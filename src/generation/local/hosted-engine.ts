/**
 * A LocalEngine that answers its owner, who is in another thread or process.
 *
 * What happens in one step goes out as one message, so that the owner's event loop wakes once per step and not once per token.
 */
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import { inOnePiece } from "../../flow/sampled-tokens.ts";
import { adapterPaths } from "../../models/causal-lm/adapter-weights.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../models/causal-lm/load-causal-lm.ts";
import { isQuantized } from "../../models/causal-lm/quantize-model.ts";
import { type WeightCuts, weightCuts } from "../../models/causal-lm/weight-cuts.ts";
import { native } from "../../torch/binding.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { EngineStatus } from "../engine.ts";
import type { GenerateRequest, Generation, SampledTokens } from "../generate.ts";
import { adoptWeights } from "./adopt-weights.ts";
import { copyWeights } from "./copy-weights.ts";
import type { EngineDescription, EngineHost, EngineSource, WeightFacts } from "./engine-host.ts";
import { LocalEngine } from "./local-engine.ts";
import { mergeAdapters } from "./merge-adapters.ts";
import { OtherRanks } from "./split/other-ranks.ts";
import { WeightPlaces } from "./weight-places.ts";
import { withFolderWeights } from "./weights-from-folder.ts";

/** How old the status can be that the owner sees, while nothing else is said. */
const STATUS_INTERVAL_MS = 100;

class HostedEngine implements EngineHost {
  readonly #model: CausalLm;
  readonly #engine: LocalEngine;
  readonly #folder: string;
  #tellStatus: (status: EngineStatus) => void = () => {};
  #stopWatching: () => void = () => {};
  #isReporting = false;
  #reportedSteps = 0;
  readonly #places: WeightPlaces;
  /** The ranks that have parts of the model beside this one; null where it is all here. */
  readonly others: OtherRanks | null;

  /** @param folder where the model is from */
  constructor(model: CausalLm, engine: LocalEngine, folder: string, others: OtherRanks | null) {
    this.#folder = folder;
    this.#model = model;
    this.#engine = engine;
    this.#places = new WeightPlaces(model);
    this.others = others;
  }

  async describe(): Promise<EngineDescription> {
    const status = this.#engine.status();
    return { status, limits: { vocabSize: this.#model.config.vocabSize, contextLength: status.contextLength } };
  }

  watch(onStatus: (status: EngineStatus) => void): Promise<void> {
    this.#tellStatus = onStatus;
    const timer = setInterval(() => this.#reportProgress(), STATUS_INTERVAL_MS).unref();
    return new Promise((resolve, reject) => {
      this.#stopWatching = () => {
        clearInterval(timer);
        resolve();
      };
      void this.others?.broken.then(reject);
    });
  }

  readonly generate = async ({ onTokens, ...request }: GenerateRequest): Promise<Generation> => {
    const tell = (tokens: SampledTokens) => {
      this.#reportSoon();
      onTokens?.(inOnePiece(tokens));
    };
    try {
      return await this.#engine.generate(onTokens === undefined ? request : { ...request, onTokens: tell });
    } finally {
      // Now as well: a message that was posted before this step may already have asked for the way out, on which the reply then goes too.
      this.#reportProgress();
      this.#reportSoon();
    }
  };

  readonly scorePrompt = (promptIds: Int32Array): Promise<Float32Array> => this.#engine.scorePrompt(promptIds);

  pause(): Promise<void> {
    return this.#told(() => this.#engine.pause());
  }

  resume(): void {
    this.#engine.resume();
  }

  abortAll(): Promise<void> {
    return this.#told(() => this.#engine.abortAll());
  }

  sleep(): Promise<void> {
    return this.#told(() => this.#engine.sleep());
  }

  async updateWeights(version: number, weights: ReadonlyMap<string, Tensor>): Promise<void> {
    const areAdapters = !isQuantized(this.#model) && adapterPaths(weights).length > 0;
    const apply = (model: CausalLm) =>
      areAdapters ? mergeAdapters(model, this.#folder, weights) : copyWeights(model, weights);
    await this.#told(() => tensorScope(() => this.#engine.updateWeights(version, apply)));
  }

  loadWeights(version: number, folder: string): Promise<void> {
    const take = (model: CausalLm) => withFolderWeights(folder, (weights) => copyWeights(model, weights));
    const load = () => this.#engine.updateWeights(version, take);
    const { others } = this;
    if (others === null) return this.#told(load);
    this.#engine.hold();
    return this.#told(() => others.loadWeights(folder, load).finally(() => this.#engine.release()));
  }

  /** Memory for weights that come: see WeightPlaces. Computes nothing from then on until `endUpdate`. */
  beginUpdate(facts: readonly WeightFacts[]): ReadonlyMap<string, Tensor> | null {
    const places = this.#places.begin(facts);
    if (places !== null) this.#engine.hold();
    return places;
  }

  /** Goes on with the weights that have come: at once, or where ranks have parts of them with `release`, when all have theirs. */
  endUpdate(version: number): void {
    this.#places.end(version);
    this.#engine.updateWeights(version, () => {});
    if (this.others === null) this.#engine.release();
    this.#report();
  }

  /** The part of each weight that is here. */
  get cuts(): WeightCuts {
    return weightCuts(this.#model);
  }

  shareWeights(version: number, parameters: ReadonlyMap<string, Tensor>): Promise<void> {
    const share = () => this.#engine.shareWeights(version, (model) => adoptWeights(model, parameters));
    return this.#told(() => tensorScope(share));
  }

  renewWeights(version: number): Promise<void> {
    return this.#told(() => this.#engine.shareWeights(version, () => {}));
  }

  async hold(): Promise<void> {
    this.#engine.hold();
  }

  async release(): Promise<void> {
    this.#engine.release();
  }

  async close(): Promise<void> {
    await this.#told(() => this.#engine.close());
    await this.others?.close();
    this.#model.dispose();
    this.#stopWatching();
  }

  /** Tells the status before what has changed it is answered: whoever waited for the answer sees it. */
  async #told<Result>(change: () => Result | Promise<Result>): Promise<Result> {
    try {
      return await change();
    } finally {
      this.#report();
    }
  }

  /** Tells the status at the end of this turn of the event loop, once for all tokens of the turn. */
  #reportSoon(): void {
    if (this.#isReporting) return;
    this.#isReporting = true;
    setImmediate(() => {
      this.#isReporting = false;
      this.#report();
    });
  }

  #reportProgress(): void {
    if (this.#engine.numSteps !== this.#reportedSteps) this.#report();
  }

  #report(): void {
    const status = this.#engine.status();
    this.#reportedSteps = status.counters.steps;
    this.#tellStatus(status);
  }
}

/**
 * Loads the model and starts the engine on it, and on the other ranks where it is split.
 *
 * @param rankModule hosts one of those
 */
export async function openHostedEngine(
  source: EngineSource,
  rankModule = new URL("engine-rank-worker", import.meta.url),
): Promise<HostedEngine> {
  const { device = "cpu", dtype, quantization, tokenizerFolder, version = 0, options = {}, numThreads, split } = source;
  if (numThreads !== undefined) native.setNumThreads(numThreads);
  const others = split === undefined ? null : await OtherRanks.start(source, split, rankModule);
  const model = loadCausalLm(source.folder, {
    ...{ device, quantization },
    ...(dtype !== undefined && { dtype }),
    ...(others !== null && { spread: others.spread }),
  });
  const loaded = tokenizerFolder === undefined ? {} : { tokenizer: await loadTokenizer(tokenizerFolder) };
  await others?.ready;
  const engine = new LocalEngine(model, { ...options, ...loaded, version, others: others ?? undefined });
  if (source.isBorrower !== true) engine.prepare();
  return new HostedEngine(model, engine, source.folder, others);
}
