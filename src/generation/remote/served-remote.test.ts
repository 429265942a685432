import { afterEach, expect, test } from "vitest";
import { type FakeServer, type Handler, startFakeVllm } from "../../../test/contracts/fake-servers.ts";
import { createScriptedEngine } from "../../testing/scripted-generate.ts";
import type { Finish, GenerateRequest, Generation } from "../generate.ts";
import { connectRemote } from "./connect-remote.ts";
import { RemoteWeights } from "./remote-weights.ts";
import { servedRemote } from "./served-remote.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A vLLM whose tokens are 10 more than the version of its weights, and which takes requests while it is stopped. */
class NumberedVllm {
  version = 0;
  /** Whether it loads what it is given; it waits for this with every load. */
  loading: Promise<boolean> = Promise.resolve(true);
  /** Whether every request gets all of its tokens at once. */
  isFast = true;
  readonly calls: string[] = [];
  /** How many requests for tokens came in all, and how many of them while it was stopped. */
  readonly asked = { inAll: 0, whileStopped: 0 };
  readonly #running = new Set<(isStopped: boolean) => void>();
  #stopped: { readonly until: Promise<void>; readonly end: () => void } | null = null;

  stop(): void {
    let end = () => {};
    const until = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#stopped ??= { until, end };
    for (const goOn of [...this.#running]) goOn(true);
  }

  /** Draws a token for every request that it works on. */
  draw(): void {
    for (const goOn of [...this.#running]) goOn(false);
  }

  async generate({ promptIds, sampling, onTokens }: GenerateRequest): Promise<Generation> {
    this.asked.inAll++;
    if (this.#stopped !== null) this.asked.whileStopped++;
    await this.#stopped?.until;
    const drawn: number[] = [];
    let finish: Finish = { kind: "length", limit: "max-tokens" };
    while (drawn.length < sampling.maxTokens) {
      if (!this.isFast && (await this.#nextTurn())) {
        finish = { kind: "aborted" };
        break;
      }
      drawn.push(10 + this.version);
      onTokens?.(tokensOf(drawn.slice(-1)));
    }
    const usage = { promptTokens: promptIds.length, cachedTokens: 0, generatedTokens: drawn.length };
    return { ...tokensOf(drawn), finish, usage };
  }

  start(): Promise<FakeServer> {
    const route = (path: string, answer: () => Promise<boolean>): Record<string, Handler> => ({
      [path]: async (_, response) => {
        this.calls.push(path);
        response.writeHead((await answer()) ? 200 : 400).end("{}");
      },
    });
    const scripted = createScriptedEngine();
    return startFakeVllm({ generate: (request) => this.generate(request), status: () => scripted.status() }, "raw", {
      ...route("/pause?mode=abort", async () => {
        this.stop();
        return true;
      }),
      ...route("/collective_rpc", async () => {
        const isLoaded = await this.loading;
        if (isLoaded) this.version++;
        return isLoaded;
      }),
      ...route("/resume", async () => {
        this.#stopped?.end();
        this.#stopped = null;
        return true;
      }),
    });
  }

  #nextTurn(): Promise<boolean> {
    return new Promise((resolve) => {
      const goOn = (isStopped: boolean) => {
        this.#running.delete(goOn);
        resolve(isStopped);
      };
      this.#running.add(goOn);
    });
  }
}

function tokensOf(ids: readonly number[]) {
  const logprobs = Float32Array.from(ids, () => -1);
  const versions = new Int32Array(ids.length);
  return {
    tokenIds: Int32Array.from(ids),
    ...{ samplerLogprobs: logprobs, drawLogprobs: logprobs, modelLogprobs: logprobs },
    ...{ versions, cacheVersions: versions },
  };
}

/** The server, as an engine that has version 1 of the weights. */
async function open() {
  const server = new NumberedVllm();
  const { url, close } = await server.start();
  const place = { kind: "vllm", url, maxAttempts: 1 } as const;
  const weights = new RemoteWeights({ ...place, run: "run" });
  const remote = await connectRemote({ ...place, weights });
  closing.push(
    close,
    () => weights.close(),
    () => remote.close(),
  );
  await weights.loadWeights("/v1", 1);
  server.asked.inAll = 0;
  const isLoading = (numLoads: number) =>
    expect.poll(() => server.calls.filter((call) => call === "/collective_rpc").length).toBe(numLoads);
  /** Time enough for a request to arrive that was sent before. */
  const roundTrips = async () => {
    for (let i = 0; i < 5; i++) await (await fetch(`${url}/v1/models`)).text();
  };
  return { server, weights, engine: servedRemote(remote, weights), isLoading, roundTrips };
}

const ask = (signal?: AbortSignal): GenerateRequest => ({
  promptIds: [1, 2],
  sampling: { maxTokens: 3, seed: 7 },
  ...(signal && { signal }),
});

/** A load that ends when told, and how. */
function pending() {
  let end: (isLoaded: boolean) => void = () => {};
  const loading = new Promise<boolean>((resolve) => {
    end = resolve;
  });
  return { loading, end };
}

test("a reply that new weights break off goes on when the server has them: every token has the version that drew it", async () => {
  const { server, weights, engine, isLoading, roundTrips } = await open();
  server.isFast = false;
  const shown: number[] = [];
  const reply = engine.generate({ ...ask(), onTokens: ({ tokenIds }) => void shown.push(...tokenIds) });
  await expect.poll(() => server.asked.inAll).toBe(1);
  server.draw();
  await expect.poll(() => shown).toEqual([11]);
  const { loading, end } = pending();
  server.loading = loading;
  const load = weights.loadWeights("/v2", 2);
  await isLoading(2);
  await roundTrips();
  expect(server.asked).toEqual({ inAll: 1, whileStopped: 0 });
  server.isFast = true;
  end(true);
  await load;
  const { tokenIds, versions } = await reply;
  expect([[...tokenIds], [...versions]]).toEqual([
    [11, 12, 12],
    [1, 2, 2],
  ]);
});

test("a request that comes when its server has stopped already is asked once more, since the new weights have drawn it", async () => {
  const { server, weights, engine } = await open();
  server.stop();
  const reply = engine.generate(ask());
  await expect.poll(() => server.asked).toEqual({ inAll: 1, whileStopped: 1 });
  await weights.loadWeights("/v2", 2);
  const { tokenIds, versions } = await reply;
  expect([[...tokenIds], [...versions]]).toEqual([
    [12, 12, 12],
    [2, 2, 2],
  ]);
  expect(server.asked.inAll).toBe(2);
});

test("a request that waits for new weights ends with its signal, and fails where the server does not take them", async () => {
  const { server, weights, engine, isLoading } = await open();
  const { loading, end } = pending();
  server.loading = loading;
  const load = weights.loadWeights("/v2", 2);
  await isLoading(2);
  const stop = new AbortController();
  const [stopped, failed] = [engine.generate(ask(stop.signal)), engine.generate(ask())];
  stop.abort();
  expect(await stopped).toMatchObject({ finish: { kind: "aborted" } });
  end(false);
  await expect(load).rejects.toThrow("refuses the request with 400");
  expect(await failed).toMatchObject({ finish: { kind: "failed", error: { code: "REMOTE_UNAVAILABLE" } } });
  expect(engine.status().brokenBy).toContain("has not taken its new weights");
  expect(server.asked.inAll).toBe(0);
});
