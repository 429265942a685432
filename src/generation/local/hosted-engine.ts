/**
 * A LocalEngine that answers its owner, who is in another thread or process.
 *
 * What happens in one step goes out as one message, so that the owner's event loop wakes once per step and not once per token.
 */
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { adapterPaths } from "../../models/causal-lm/adapter-weights.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../models/causal-lm/load-causal-lm.ts";
import { isInFp8, isQuantized } from "../../models/causal-lm/quantize-model.ts";
import { namedWeights } from "../../models/causal-lm/weight-names.ts";
import { native } from "../../torch/binding.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { EngineStatus } from "../engine.ts";
import type { GenerateRequest, Generation, SampledTokens } from "../generate.ts";
import { adoptWeights } from "./adopt-weights.ts";
import { copyWeights } from "./copy-weights.ts";
import type { EngineDescription, EngineHost, EngineSource, WeightFacts } from "./engine-host.ts";
import { LocalEngine } from "./local-engine.ts";
import { mergeAdapters } from "./merge-adapters.ts";

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
  /** Weights that have not come yet, of the version that comes in parts. */
  #missing: Set<string>;

  /** @param folder where the model is from */
  constructor(model: CausalLm, engine: LocalEngine, folder: string) {
    this.#folder = folder;
    this.#model = model;
    this.#engine = engine;
    this.#missing = this.#weightNames();
  }

  async describe(): Promise<EngineDescription> {
    const status = this.#engine.status();
    return { status, limits: { vocabSize: this.#model.config.vocabSize, contextLength: status.contextLength } };
  }

  watch(onStatus: (status: EngineStatus) => void): Promise<void> {
    this.#tellStatus = onStatus;
    const timer = setInterval(() => this.#reportProgress(), STATUS_INTERVAL_MS).unref();
    return new Promise((resolve) => {
      this.#stopWatching = () => {
        clearInterval(timer);
        resolve();
      };
    });
  }

  readonly generate = async ({ onTokens, ...request }: GenerateRequest): Promise<Generation> => {
    const tell = (tokens: SampledTokens) => {
      this.#reportSoon();
      onTokens?.(tokens);
    };
    try {
      return await this.#engine.generate(onTokens === undefined ? request : { ...request, onTokens: tell });
    } finally {
      this.#reportSoon();
    }
  };

  readonly scorePrompt = (promptIds: Int32Array): Promise<Float32Array> => this.#engine.scorePrompt(promptIds);

  pause(): Promise<void> {
    this.#reportSoon();
    return this.#engine.pause();
  }

  resume(): void {
    this.#engine.resume();
  }

  abortAll(): Promise<void> {
    this.#reportSoon();
    return this.#engine.abortAll();
  }

  async sleep(): Promise<void> {
    this.#reportSoon();
    this.#engine.sleep();
  }

  async updateWeights(version: number, weights: ReadonlyMap<string, Tensor>): Promise<void> {
    this.#reportSoon();
    const areAdapters = !isQuantized(this.#model) && adapterPaths(weights).length > 0;
    const apply = (model: CausalLm) =>
      areAdapters ? mergeAdapters(model, this.#folder, weights) : copyWeights(model, weights);
    tensorScope(() => this.#engine.updateWeights(version, apply));
  }

  /** Memory of the engine's own for weights that come, all or some, where they are what it has; null elsewhere. Computes nothing until `endUpdate`. */
  beginUpdate(facts: readonly WeightFacts[]): ReadonlyMap<string, Tensor> | null {
    if (isQuantized(this.#model) || isInFp8(this.#model)) return null;
    const own = new Map(
      namedWeights(this.#model).map(({ name, parameter, viewOf }) => [
        name,
        keep(tensorScope(() => viewOf(parameter.detach()))),
      ]),
    );
    const isOwn = ({ name, dtype, shape }: WeightFacts) => {
      const place = own.get(name);
      return place !== undefined && place.dtype === dtype && `${place.shape}` === `${shape}`;
    };
    const isTaken = facts.every(isOwn);
    if (isTaken) this.#engine.hold();
    const wanted = new Set(isTaken ? facts.map(({ name }) => name) : []);
    for (const [name, place] of own) if (!wanted.has(name)) place.dispose();
    for (const name of wanted) this.#missing.delete(name);
    return isTaken ? new Map(facts.map(({ name }) => [name, own.get(name)!])) : null;
  }

  /** Goes on with the weights that have come. */
  endUpdate(version: number): void {
    this.#reportSoon();
    const [missing] = this.#missing;
    if (missing !== undefined)
      throw new RerollError(
        "WEIGHTS_MISMATCH",
        `Version ${version} came without ${missing}, which the engine's model has.`,
      );
    this.#missing = this.#weightNames();
    this.#engine.updateWeights(version, () => {});
    this.#engine.release();
  }

  #weightNames(): Set<string> {
    return new Set(namedWeights(this.#model).map(({ name }) => name));
  }

  async shareWeights(version: number, parameters: ReadonlyMap<string, Tensor>): Promise<void> {
    this.#reportSoon();
    tensorScope(() => this.#engine.shareWeights(version, (model) => adoptWeights(model, parameters)));
  }

  async hold(): Promise<void> {
    this.#engine.hold();
  }

  async close(): Promise<void> {
    this.#reportSoon();
    await this.#engine.close();
    this.#model.dispose();
    this.#stopWatching();
  }

  /**
   * Tells the status at the end of this turn of the event loop, before the messages of the turn go out: it is asked for before the
   * first of them is posted, and travels with them.
   */
  #reportSoon(): void {
    if (this.#isReporting) return;
    this.#isReporting = true;
    setImmediate(() => {
      this.#isReporting = false;
      this.#report();
    });
  }

  #reportProgress(): void {
    if (this.#engine.status().counters.steps !== this.#reportedSteps) this.#report();
  }

  #report(): void {
    const status = this.#engine.status();
    this.#reportedSteps = status.counters.steps;
    this.#tellStatus(status);
  }
}

/** Loads the model and starts the engine on it. */
export async function openHostedEngine(source: EngineSource): Promise<HostedEngine> {
  const { device = "cpu", dtype, quantization, tokenizerFolder, version = 0, options = {}, numThreads } = source;
  if (numThreads !== undefined) native.setNumThreads(numThreads);
  const model = loadCausalLm(source.folder, { device, quantization, ...(dtype === undefined ? {} : { dtype }) });
  const loaded = tokenizerFolder === undefined ? {} : { tokenizer: await loadTokenizer(tokenizerFolder) };
  const engine = new LocalEngine(model, { ...options, ...loaded, version });
  engine.prepare();
  return new HostedEngine(model, engine, source.folder);
}
