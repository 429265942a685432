import { expect, test, vi } from "vitest";
import { RerollError } from "../../errors/reroll-error.ts";
import type { EngineStatus, ServedEngine } from "../engine.ts";
import type { GenerateRequest, Generation, SampledTokens } from "../generate.ts";
import { EnginePool } from "./engine-pool.ts";
import { Seat } from "./seat.ts";

/** An engine that counts up from the last token of its prompt, a token whenever it is told to. */
class CountingEngine implements ServedEngine {
  readonly asked: GenerateRequest[] = [];
  readonly #open = new Set<{ request: GenerateRequest; drawn: number[]; end: (generation: Generation) => void }>();
  version = 0;
  brokenBy: string | undefined;

  readonly generate = (request: GenerateRequest): Promise<Generation> => {
    this.asked.push(request);
    return new Promise((end) => void this.#open.add({ request, drawn: [], end }));
  };

  /** Draws a token for every request; those that have all of theirs end. */
  draw(): void {
    for (const one of [...this.#open]) {
      const { request, drawn, end } = one;
      drawn.push([...Array.from(request.promptIds), ...drawn].at(-1)! + 1);
      request.onTokens?.(this.#tokens(drawn.slice(-1)));
      if (drawn.length < request.sampling.maxTokens) continue;
      this.#open.delete(one);
      end(this.#reply(request, drawn, { kind: "length", limit: "max-tokens" }));
    }
  }

  /** Ends without a word on what was drawn, as a thread does. */
  die(error = new RerollError("ENGINE_BROKEN", "it was killed.")): void {
    this.brokenBy = error.message;
    for (const { request, end } of this.#open) end(this.#reply(request, [], { kind: "failed", error }));
    this.#open.clear();
  }

  #tokens(ids: readonly number[]): SampledTokens {
    const logprobs = Float32Array.from(ids, (id) => -id);
    const versions = Int32Array.from(ids, () => this.version);
    return {
      tokenIds: Int32Array.from(ids),
      ...{ samplerLogprobs: logprobs, drawLogprobs: logprobs, modelLogprobs: logprobs },
      ...{ versions, cacheVersions: versions },
    };
  }

  #reply(request: GenerateRequest, drawn: readonly number[], finish: Generation["finish"]): Generation {
    const usage = { promptTokens: request.promptIds.length, cachedTokens: 0, generatedTokens: drawn.length };
    return { ...this.#tokens(drawn), finish, usage };
  }

  async abortAll(): Promise<void> {}
  async close(): Promise<void> {}

  status(): EngineStatus {
    return {
      ...{ version: this.version, isPaused: false, queuedRequests: 0, runningRequests: this.#open.size },
      ...{ maxQueuedRequests: 10, contextLength: 100, cacheUsage: 0 },
      ...(this.brokenBy !== undefined && { brokenBy: this.brokenBy }),
      counters: {
        ...{ requests: this.asked.length, finished: 0, aborted: 0, failed: 0 },
        ...{ prefilledTokens: 0, cachedTokens: 0, generatedTokens: 0, steps: 0 },
      },
    };
  }
}

/** A pool whose seats all serve; `engines` are those in the seats now. */
async function openPool(count: number, bringsWeights = false) {
  const engines: CountingEngine[] = [];
  const said: string[] = [];
  const seats = await Promise.all(
    Array.from({ length: count }, (_, i) => {
      const open = async () => (engines[i] = new CountingEngine());
      return Seat.open({ name: `engine ${i}`, open, bringsWeights, report: (text) => void said.push(text) });
    }),
  );
  const publish = (version: number) =>
    Promise.all(
      seats.map((seat) =>
        seat.give(async (engine) => {
          engine.version = version;
        }),
      ),
    );
  await publish(1);
  return { pool: new EnginePool(seats, { seed: 7 }), engines, seats, said, publish };
}

const ask = (promptIds: number[], more: Partial<GenerateRequest> = {}): GenerateRequest => ({
  promptIds,
  sampling: { maxTokens: 4, seed: 3 },
  ...more,
});
const turn = () => new Promise((resolve) => setImmediate(resolve));

test("the samples of a prompt share an engine, and other prompts go to the one with the least to do", async () => {
  const { pool, engines } = await openPool(3);
  for (let i = 0; i < 4; i++) void pool.generate(ask([1]));
  for (let i = 0; i < 2; i++) void pool.generate(ask([2]));
  void pool.generate(ask([3]));
  void pool.generate(ask([4]));
  await turn();
  expect(engines.map(({ asked }) => asked.map(({ promptIds }) => promptIds[0]))).toEqual([
    [1, 1, 1, 1],
    [2, 2],
    [3, 4],
  ]);
});

test("a prompt with more samples than a group has is computed by a second engine rather than leave it idle", async () => {
  const { pool, engines } = await openPool(2);
  for (let i = 0; i < 12; i++) void pool.generate(ask([1]));
  await turn();
  expect(engines.map(({ asked }) => asked.length)).toEqual([8, 4]);
});

test("the turns of a session stay with the engine that has its cache, however much that has to do", async () => {
  const { pool, engines } = await openPool(2);
  void pool.generate(ask([1], { sessionId: "a" }));
  await turn();
  for (let i = 0; i < 5; i++) void pool.generate(ask([1]));
  void pool.generate(ask([1, 2, 3], { sessionId: "a" }));
  await turn();
  expect(engines.map(({ asked }) => asked.length)).toEqual([7, 0]);
});

test("a reply goes on elsewhere with the tokens it has, which keep their log-probs and versions", async () => {
  const { pool, engines, said } = await openPool(2);
  const shown: number[] = [];
  const reply = pool.generate(ask([10], { onTokens: ({ tokenIds }) => void shown.push(...tokenIds) }));
  await turn();
  engines[0]!.draw();
  engines[0]!.draw();
  engines[1]!.version = 2;
  const [first] = engines;
  first!.die();
  await turn();
  expect(engines[1]!.asked).toMatchObject([
    { promptIds: Int32Array.from([10, 11, 12]), sampling: { maxTokens: 2, seed: 3 } },
  ]);
  engines[1]!.draw();
  engines[1]!.draw();
  expect(await reply).toEqual({
    tokenIds: Int32Array.from([11, 12, 13, 14]),
    samplerLogprobs: Float32Array.from([-11, -12, -13, -14]),
    drawLogprobs: Float32Array.from([-11, -12, -13, -14]),
    modelLogprobs: Float32Array.from([-11, -12, -13, -14]),
    versions: Int32Array.from([1, 1, 2, 2]),
    cacheVersions: Int32Array.from([1, 1, 2, 2]),
    finish: { kind: "length", limit: "max-tokens" },
    usage: { promptTokens: 1, cachedTokens: 0, generatedTokens: 4 },
  });
  expect(shown).toEqual([11, 12, 13, 14]);
  expect(said[0]).toBe("engine 0 is lost: it was killed. Its requests go on elsewhere.");
});

test("a reply whose last token had come when its engine was lost ends with it", async () => {
  const { pool, engines } = await openPool(2);
  const reply = pool.generate(ask([10], { sampling: { maxTokens: 9, stopIds: [12] } }));
  await turn();
  for (let i = 0; i < 2; i++) engines[0]!.draw();
  engines[0]!.die();
  expect(await reply).toMatchObject({
    tokenIds: Int32Array.from([11, 12]),
    finish: { kind: "stop", by: "token", tokenId: 12 },
  });
  expect(engines[1]!.asked).toEqual([]);
});

test("a reply whose rules look back on it starts over, unless its tokens have been shown", async () => {
  const { pool, engines } = await openPool(2);
  const sampling = { maxTokens: 4, presencePenalty: 1 };
  const hidden = pool.generate(ask([10], { sampling }));
  const shown = pool.generate(ask([10], { sampling, onTokens: () => {} }));
  await turn();
  engines[0]!.draw();
  engines[0]!.die();
  expect(await shown).toMatchObject({ tokenIds: Int32Array.from([11]), finish: { kind: "failed" } });
  expect(engines[1]!.asked).toMatchObject([{ promptIds: [10], sampling: { maxTokens: 4 } }]);
  for (let i = 0; i < 4; i++) engines[1]!.draw();
  expect(await hidden).toMatchObject({ tokenIds: Int32Array.from([11, 12, 13, 14]) });
});

test("an engine that ends before it is there is named, and one that cannot work says so itself", async () => {
  const opening = (error: RerollError) =>
    Seat.open({ name: "Engine 2 on cuda:1", open: () => Promise.reject(error), bringsWeights: false });
  const ended = "The engine's process was ended by SIGKILL.";
  await expect(opening(new RerollError("ENGINE_BROKEN", ended))).rejects.toMatchObject({
    code: "ENGINE_BROKEN",
    message: `Engine 2 on cuda:1 could not be opened: ${ended} Look for what ended it, such as a lack of memory, and start the run again.`,
  });
  await expect(opening(new RerollError("INVALID_OPTION", "engine.threads is 0."))).rejects.toThrow(
    /^engine\.threads is 0\.$/,
  );
});

test("an engine that was opened again serves once it has been given the weights of a publication", async () => {
  const { pool, engines, publish, seats } = await openPool(2);
  const [first] = engines;
  void pool.generate(ask([1]));
  await turn();
  first!.die();
  await expect.poll(() => seats[0]!.engine).not.toBeNull();
  expect(engines[0]).not.toBe(first);
  expect(seats.map(({ isServing }) => isServing)).toEqual([false, true]);
  for (let i = 0; i < 3; i++) void pool.generate(ask([2]));
  await turn();
  expect(engines.map(({ asked }) => asked.length)).toEqual([0, 4]);
  await publish(2);
  void pool.generate(ask([3]));
  await turn();
  expect(engines[0]!.asked).toHaveLength(1);
  expect(pool.status()).toMatchObject({ version: 2, counters: { requests: 6 } });
});

test("a version is that of all engines that serve: one that does not take it is lost", async () => {
  const { pool, seats, engines } = await openPool(2);
  const refuse = async (engine: CountingEngine) => {
    if (engine === engines[0]) throw new RerollError("WEIGHTS_MISMATCH", "another model");
    engine.version = 2;
  };
  await Promise.all(seats.map((seat) => seat.give(refuse)));
  expect(seats.map(({ isServing }) => isServing)).toEqual([false, true]);
  pool.expectServing(2);
  await Promise.all(seats.map((seat) => seat.give(() => Promise.reject(new Error("gone")))));
  expect(() => pool.expectServing(3)).toThrow("No engine took version 3 of the weights.");
});

test("when the only engine is lost, replies wait until it is back and has the weights, and one that costs it again and again fails", async () => {
  const { pool, engines, seats, publish } = await openPool(1);
  let numOpened = 0;
  seats[0]!.onOutage = () => {
    if (seats[0]!.engine === null) return;
    numOpened++;
    void publish(1);
  };
  const waiting = pool.generate(ask([1]));
  await turn();
  const [first] = engines;
  first!.draw();
  first!.die();
  await expect.poll(() => engines[0] !== first && engines[0]!.asked.length).toBe(1);
  expect(numOpened).toBe(1);
  for (let i = 0; i < 4; i++) engines[0]!.draw();
  expect(await waiting).toMatchObject({ tokenIds: Int32Array.from([2, 3, 4, 5]), versions: Int32Array.of(1, 1, 1, 1) });

  // One that costs an engine each time is not asked for without end.
  const costly = pool.generate(ask([7]));
  for (let numLost = 0; numLost < 4; numLost++) {
    const isAsked = () => engines[0]!.asked.at(-1)?.promptIds[0] === 7 && engines[0]!.brokenBy === undefined;
    await expect.poll(isAsked).toBe(true);
    engines[0]!.die();
  }
  expect(await costly).toMatchObject({ finish: { kind: "failed", error: { code: "ENGINE_BROKEN" } } });
});

const SERVER_MS = 6000 + 13 * 30_000;

test.each([
  ["a lost engine of this machine", "three times", { bringsWeights: false }, 6000],
  ["a lost server", "16 times", { bringsWeights: true, isElsewhere: true }, SERVER_MS],
  ["a lost server that is sent weights", "16 times", { bringsWeights: false, isElsewhere: true }, SERVER_MS],
])("replies fail once %s could not be opened again %s", async (_, __, source, patienceMs) => {
  vi.useFakeTimers();
  try {
    let isGone = false;
    const engine = new CountingEngine();
    const open = async () => {
      if (isGone) throw new RerollError("NO_DEVICE", "there is no memory left");
      return engine;
    };
    const seat = await Seat.open({ name: "engine", open, ...source });
    await seat.give(async () => {});
    let hasEnded = false;
    const failing = new EnginePool([seat], { seed: 1 }).generate(ask([1]));
    isGone = true;
    engine.die();
    void failing.then(() => {
      hasEnded = true;
    });
    await vi.advanceTimersByTimeAsync(patienceMs - 1000);
    expect(hasEnded).toBe(false);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await failing).toMatchObject({ finish: { kind: "failed", error: { code: "ENGINE_BROKEN" } } });
  } finally {
    vi.useRealTimers();
  }
});

test("a pool that is closed waits a minute for an engine that is being opened, and one that comes later is closed", async () => {
  vi.useFakeTimers();
  try {
    const engine = new CountingEngine();
    const late = Object.assign(new CountingEngine(), { close: vi.fn(async () => {}) });
    let come = () => {};
    const coming = new Promise<CountingEngine>((resolve) => {
      come = () => resolve(late);
    });
    const openings = [Promise.resolve(engine), coming];
    const seat = await Seat.open({ name: "engine", open: () => openings.shift()!, bringsWeights: false });
    await seat.give(async () => {});
    await seat.ask(() => Promise.reject(new Error("it was killed")));
    await vi.advanceTimersByTimeAsync(0);
    let isClosed = false;
    void new EnginePool([seat], { seed: 1 }).close().then(() => {
      isClosed = true;
    });
    await vi.advanceTimersByTimeAsync(59_999);
    expect(isClosed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect([isClosed, late.close.mock.calls.length]).toEqual([true, 0]);
    come();
    await vi.advanceTimersByTimeAsync(0);
    expect(late.close.mock.calls.length).toBe(1);
    expect(seat.engine).toBeNull();
  } finally {
    vi.useRealTimers();
  }
});

test("replies go on elsewhere where a server is back", async () => {
  const returning = await openPool(2, true);
  const waiting = returning.pool.generate(ask([1]));
  await turn();
  const [first, second] = returning.engines;
  second!.brokenBy = "it was killed.";
  first!.draw();
  first!.die();
  await turn();
  second!.die();
  const again = () => returning.engines.find((one) => one !== first && one !== second && one.asked.length > 0);
  await expect.poll(again).toBeDefined();
  for (let i = 0; i < 3; i++) again()!.draw();
  expect(await waiting).toMatchObject({ tokenIds: Int32Array.from([2, 3, 4, 5]) });
});

test("replies that are asked for after another run has taken the server fail with that, as those under way do", async () => {
  const { pool, engines } = await openPool(1);
  const underWay = pool.generate(ask([1]));
  engines[0]!.die(new RerollError("REMOTE_TAKEN", "Another run has given this server its weights since."));
  const ends = [await underWay, await pool.generate(ask([1]))].map(({ finish }) => finish);
  expect(ends).toMatchObject([{ error: { code: "REMOTE_TAKEN" } }, { error: { code: "REMOTE_TAKEN" } }]);
  await pool.close();
});

test("requests without a seed get theirs from the pool, in the order in which they come", async () => {
  const { pool, engines } = await openPool(2);
  for (const promptIds of [[1], [2], [3]]) void pool.generate({ promptIds, sampling: { maxTokens: 1 } });
  await turn();
  expect(engines.flatMap(({ asked }) => asked.map(({ sampling }) => sampling.seed)).sort()).toEqual([7, 8, 9]);
});
