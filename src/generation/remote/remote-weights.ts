/**
 * New weights for a remote engine, from files that it can reach: whole models, or adapters that it adds to the model it has.
 *
 * The server is told the run and the version of what it loads. Some say them with every reply; adapters have them in their name; the
 * others are watched (`Lifeline`). So a server may serve any number of runs, one after another, each with versions of its own; and one
 * that has started again is noticed. It then loads what was published last (`restore`) before any of its tokens are used.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { takenOver } from "./dialect.ts";
import { dialectOf, kindsThatTake, type RemoteKind } from "./dialects.ts";
import { HttpClient } from "./http-client.ts";
import { Lifeline } from "./lifeline.ts";
import { isRemoteFault, remoteFault, retryAfterOf } from "./remote-fault.ts";
import { createRetryDelays, type RetryOptions } from "./retry.ts";
import { type AnnouncedWeights, adapterName, type WeightRoutes, type WeightsInFolder } from "./weight-routes.ts";
import { WeightsGate } from "./weights-gate.ts";

interface RemoteWeightsOptions extends RetryOptions {
  readonly kind: RemoteKind;
  /** Such as http://127.0.0.1:30000. */
  readonly url: string;
  readonly apiKey?: string;
  /** Names this process to the server: letters, digits and dashes, never used before. */
  readonly run: string;
  /** What the folders hold. Default "files": whole models. */
  readonly way?: "files" | "adapters";
  /** How long loading may take. Default 10 minutes. */
  readonly timeoutMs?: number;
  /** Aborted when the run is asked to stop: what fails from then on is not tried again here. Absent: nobody asks. */
  readonly asked?: AbortSignal;
}

/** Where a remote engine gets its weights from, as the one that asks it for tokens sees it. */
export interface GivenWeights {
  /** What the server was given last; null before anything was published. */
  readonly announced: AnnouncedWeights | null;
  /** The adapters that tokens are to be drawn with; undefined where the server's own weights are the run's. */
  readonly adapter: string | undefined;
  /** How often the server has loaded weights. A request remembers it, so that what it finds lost is restored once and not once per request. */
  readonly numLoads: number;
  /** Whether the server has ended since it was given weights, as far as can be told from here. */
  readonly isLost: boolean;
  /** Where requests wait while weights change, so that each is drawn by those that are announced when it is sent. */
  readonly gate: WeightsGate;
  /** Resolves when the server has what was published last. Rejects where the server has to be sent it: it then counts as lost. */
  restore(numLoads?: number): Promise<void>;
}

export class RemoteWeights implements GivenWeights {
  readonly run: string;
  readonly gate = new WeightsGate();
  readonly #options: RemoteWeightsOptions;
  readonly #routes: WeightRoutes;
  readonly #http: HttpClient;
  #published: { readonly folder: string; readonly version: number } | null = null;
  #numLoads = 0;
  #loading: Promise<void> | null = null;
  #line: Lifeline | null = null;
  #isClosed = false;
  /** Names of adapters that the server has, oldest first. */
  #adapters: string[] = [];

  constructor(options: RemoteWeightsOptions) {
    const { kind, url, apiKey, way = "files", timeoutMs = 600_000 } = options;
    const routes = dialectOf(kind).weights;
    if (routes === undefined || !kindsThatTake(way).includes(kind)) {
      const able = kindsThatTake(way).map((one) => `"${one}"`);
      throw new RerollError(
        "INVALID_OPTION",
        `engine.remote.kind "${kind}" cannot be given ${way === "adapters" ? "adapters" : "new weights"} over HTTP. Use ${able.join(" or ")}, or leave engine.remote out to sample in this process.`,
      );
    }
    this.run = options.run;
    this.#options = options;
    this.#routes = routes;
    this.#http = new HttpClient({ url, timeoutMs, maxConnections: 1, ...(apiKey !== undefined && { apiKey }) });
  }

  get announced(): AnnouncedWeights | null {
    return this.#published && { run: this.run, version: this.#published.version };
  }

  get adapter(): string | undefined {
    const { announced } = this;
    return this.#options.way === "adapters" && announced !== null ? adapterName(announced) : undefined;
  }

  get numLoads(): number {
    return this.#numLoads;
  }

  get isLost(): boolean {
    return this.#line?.isCut ?? false;
  }

  /** Throws where the server has not got what loading needs. */
  async check(): Promise<void> {
    await this.#routes.check?.(this.#http, this.#options.way ?? "files");
  }

  /**
   * Resolves when the server draws with the weights of this folder, under this version. One that does not take them is given them by
   * `restore`, before anything else is taken from it.
   */
  async loadWeights(folder: string, version: number): Promise<void> {
    await this.#loading?.catch(() => {});
    await this.#changing(async () => {
      try {
        await this.#load(() => ({ folder, version }));
      } finally {
        this.#published = { folder, version };
      }
    });
  }

  /** Notes what a server that does not answer has missed: `restore` gives it these weights. */
  miss(folder: string, version: number): void {
    this.#published = { folder, version };
  }

  restore(numLoads = this.#numLoads): Promise<void> {
    if (numLoads !== this.#numLoads) return Promise.resolve();
    this.#loading ??= this.#changing(() => this.#restore()).finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  #changing(change: () => Promise<void>): Promise<void> {
    return this.#isTold ? change() : this.gate.during(change);
  }

  /** Whether replies tell what drew them: they say it, or were asked for by the name of adapters. */
  get #isTold(): boolean {
    return this.#routes.tellsRun || this.#options.way === "adapters";
  }

  async #restore(): Promise<void> {
    for (;;) {
      const restored = this.#published;
      invariant(restored !== null, "weights are restored that were never published");
      // Whatever has been published while an attempt failed is what the next one gives.
      await this.#load(() => this.#published!);
      if (restored === this.#published) return;
    }
  }

  /** What is being loaded is not asked for again. */
  close(): void {
    this.#isClosed = true;
    this.#line?.close();
    this.#http.close();
  }

  async #load(weights: () => { readonly folder: string; readonly version: number }): Promise<void> {
    const { asked } = this.#options;
    const delayOf = createRetryDelays(this.#options);
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#watched(() => this.#loadOnce({ run: this.run, ...weights(), begins: this.#numLoads === 0 }));
        this.#numLoads++;
        return;
      } catch (cause) {
        const delayMs = isRemoteFault(cause) ? delayOf(attempt, retryAfterOf(cause)) : undefined;
        if (delayMs === undefined || this.#isClosed || asked?.aborted) throw cause;
        // Cut short by the question: a last attempt follows.
        await sleep(delayMs, undefined, { ...(asked !== undefined && { signal: asked }) }).catch(() => {});
      }
    }
  }

  /** A server that ends from here on is noticed, where it does not itself say whose weights it has. */
  async #watched(load: () => Promise<void>): Promise<void> {
    if (this.#isTold) return load();
    if (this.#line === null || this.#line.isCut) this.#line = await Lifeline.open(this.#http.url);
    await load();
    if (this.#line.isCut) throw remoteFault(`${this.#http.url} ended while it loaded weights`);
  }

  async #loadOnce(weights: WeightsInFolder): Promise<void> {
    try {
      if (this.#options.way === "adapters") await this.#loadAdapters(weights);
      else await this.#routes.loadFolder!(this.#http, weights);
    } catch (cause) {
      throw cause instanceof RerollError && cause.details.code === "weights_taken" ? takenOver(this.#http.url) : cause;
    }
  }

  /** Every version has a name of its own, so that replies under way end with what they began with. The one before stays for them. */
  async #loadAdapters(weights: WeightsInFolder): Promise<void> {
    const { load, unload } = this.#routes.adapters!;
    const name = adapterName(weights);
    if (this.#adapters.includes(name)) await unload(this.#http, name).catch(ignoreRefusal);
    await load(this.#http, name, weights.folder);
    this.#adapters = [...this.#adapters.filter((one) => one !== name), name];
    for (const old of this.#adapters.splice(0, this.#adapters.length - 2)) {
      await unload(this.#http, old).catch(ignoreRefusal);
    }
  }
}

/** A server that has started again has nothing to unload. */
function ignoreRefusal(cause: unknown): void {
  if (!(cause instanceof RerollError) || isRemoteFault(cause)) throw cause;
}
