/**
 * New weights for a remote engine, from files that it can reach.
 *
 * The server is told the run and the version of what it loads, and says them with every reply. So it may serve any number of runs, one
 * after another, each with versions of its own; and one that has started again is noticed, since it has forgotten its run. It then
 * loads what was published last (`restore`) before any of its tokens are used.
 *
 * llama.cpp has no route for new weights, and vLLM has none that reads files: those it has (`/update_weights` and its relatives) take them
 * over NCCL, which this does not speak. See `trainableKinds`.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { type AnnouncedWeights, takenOver } from "./dialect.ts";
import { dialectOf, type RemoteKind, trainableKinds } from "./dialects.ts";
import { HttpClient } from "./http-client.ts";
import { isRemoteFault, refuseStatus, retryAfterOf } from "./remote-fault.ts";
import { createRetryDelays, type RetryOptions } from "./retry.ts";

interface RemoteWeightsOptions extends RetryOptions {
  readonly kind: RemoteKind;
  /** Such as http://127.0.0.1:30000. */
  readonly url: string;
  readonly apiKey?: string;
  /** Names this process to the server: letters, digits and dashes, never used before. */
  readonly run: string;
  /** How long loading may take. Default 10 minutes. */
  readonly timeoutMs?: number;
}

interface LoadedWeights {
  readonly folder: string;
  readonly version: number;
  /** Whether the run has given this server nothing yet. */
  readonly begins: boolean;
}

export class RemoteWeights {
  readonly run: string;
  readonly #options: RemoteWeightsOptions;
  readonly #http: HttpClient;
  #published: { readonly folder: string; readonly version: number } | null = null;
  #numLoads = 0;
  #loading: Promise<void> | null = null;

  constructor(options: RemoteWeightsOptions) {
    const { kind, url, apiKey, timeoutMs = 600_000 } = options;
    if (dialectOf(kind).loadRequest === undefined) {
      throw new RerollError(
        "INVALID_OPTION",
        `engine.remote.kind "${kind}" cannot be given new weights over HTTP. Use ${trainableKinds.map((one) => `"${one}"`).join(" or ")}, or leave engine.remote out to sample in this process.`,
      );
    }
    this.run = options.run;
    this.#options = options;
    this.#http = new HttpClient({ url, timeoutMs, maxConnections: 1, ...(apiKey !== undefined && { apiKey }) });
  }

  /** What the server was given last; null before anything was published. */
  get announced(): AnnouncedWeights | null {
    return this.#published && { run: this.run, version: this.#published.version };
  }

  /** How often the server has loaded weights. A request remembers it, so that what it finds lost is restored once and not once per request. */
  get numLoads(): number {
    return this.#numLoads;
  }

  /**
   * Resolves when the server draws with the weights of this folder, under this version. One that does not take them is given them by
   * `restore`, before anything else is taken from it.
   */
  async loadWeights(folder: string, version: number): Promise<void> {
    await this.#loading?.catch(() => {});
    try {
      await this.#load(() => ({ folder, version, begins: this.#numLoads === 0 }));
    } finally {
      this.#published = { folder, version };
    }
  }

  /** Notes what a server that does not answer has missed: `restore` gives it these weights. */
  miss(folder: string, version: number): void {
    this.#published = { folder, version };
  }

  /** Has the server load again what was published last, unless it has loaded since `numLoads` was read. */
  restore(numLoads = this.#numLoads): Promise<void> {
    if (numLoads !== this.#numLoads) return Promise.resolve();
    this.#loading ??= this.#restore().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #restore(): Promise<void> {
    for (;;) {
      const restored = this.#published;
      invariant(restored !== null, "weights are restored that were never published");
      // Whatever has been published while an attempt failed is what the next one gives.
      await this.#load(() => ({ ...this.#published!, begins: this.#numLoads === 0 }));
      if (restored === this.#published) return;
    }
  }

  close(): void {
    this.#http.close();
  }

  async #load(weights: () => LoadedWeights): Promise<void> {
    const delayOf = createRetryDelays(this.#options);
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#loadOnce(weights());
        this.#numLoads++;
        return;
      } catch (cause) {
        const delayMs = isRemoteFault(cause) ? delayOf(attempt, retryAfterOf(cause)) : undefined;
        if (delayMs === undefined) throw cause;
        await sleep(delayMs);
      }
    }
  }

  async #loadOnce({ folder, ...weights }: LoadedWeights): Promise<void> {
    const announced = { run: this.run, ...weights };
    const request = dialectOf(this.#options.kind).loadRequest!(folder, announced);
    const response = await this.#http.send({ method: "POST", ...request });
    try {
      await refuseStatus(response);
    } catch (cause) {
      throw cause instanceof RerollError && cause.details.code === "weights_taken" ? takenOver(this.#http.url) : cause;
    }
    const answer = answerSchema.safeParse(await response.json());
    if (answer.data?.success === false) throw notLoaded(response.url, folder, answer.data.message);
  }
}

/** SGLang says in the body whether it worked, on some versions with status 200 either way. */
const answerSchema = z.looseObject({
  success: z.boolean().optional(),
  message: z.string().default("it does not say why"),
});

function notLoaded(url: string, folder: string, reason: string): RerollError {
  return new RerollError("REMOTE_REFUSED", `${url} did not load ${folder}: ${reason}`, { url, folder });
}
