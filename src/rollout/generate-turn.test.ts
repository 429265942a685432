import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import type { GenerateRequest, Generation } from "../generation/generate.ts";
import { deriveSeed } from "../random/random.ts";
import { createScriptedEngine, type ScriptedEngine } from "../testing/scripted-generate.ts";
import { Gate } from "./gate.ts";
import { generateTurn, type TurnRequest } from "./generate-turn.ts";

test("a reply that was held goes on under newer weights: tokens joined, each with its version", async () => {
  const { engine, requests, step } = steppedEngine([10, 11, 12, 13, 14]);
  const gate = new Gate();
  const stages: string[] = [];
  let timeMs = 0;
  const turn = generateTurn(
    recorded(engine, requests),
    gate,
    request({ clock: () => timeMs, onStage: (stage) => stages.push(stage) }),
  );
  await step(2);
  gate.close();
  await settle();
  engine.publish(7);
  timeMs = 400;
  gate.open();
  await step(10);
  const done = await turn;
  expect(done).toMatchObject({ kind: "done", value: { finish: { kind: "stop" }, heldMs: 400 } });
  if (done.kind !== "done") return;
  const { reply } = done.value;
  expect([...reply.tokenIds]).toEqual([10, 11, 12, 13, 14, 258]);
  expect([...reply.versions]).toEqual([1, 1, 7, 7, 7, 7]);
  expect([...reply.samplerLogprobs]).toEqual([-0.25, -0.25, -0.25, -0.25, -0.25, -0.25]);
  expect(requests.map(({ promptIds }) => Array.from(promptIds))).toEqual([
    [1, 2],
    [1, 2, 10, 11],
  ]);
  expect(requests.map(({ sampling }) => [sampling.seed, sampling.maxTokens])).toEqual([
    [9, 100],
    [deriveSeed(9, "piece", 1), 98],
  ]);
  expect(stages).toEqual(["generating", "held", "generating"]);
});

test("the pieces of a reply together have no more than maxTokens", async () => {
  const { engine, requests, step } = steppedEngine([10, 11, 12, 13, 14]);
  const gate = new Gate();
  const turn = generateTurn(recorded(engine, requests), gate, request({ sampling: { maxTokens: 4, stopIds: [258] } }));
  await step(3);
  gate.close();
  await settle();
  gate.open();
  await step(5);
  expect(await turn).toMatchObject({
    kind: "done",
    value: { reply: { tokenIds: Int32Array.of(10, 11, 12, 13) }, finish: { kind: "length", limit: "max-tokens" } },
  });
  expect(requests.map(({ sampling }) => sampling.maxTokens)).toEqual([4, 1]);
});

test("a reply held after its last token is over, without asking for no tokens", async () => {
  const gate = new Gate();
  let numCalls = 0;
  const turn = generateTurn(
    async () => {
      numCalls++;
      gate.close();
      return generation([5, 6], { kind: "aborted" });
    },
    gate,
    request({ sampling: { maxTokens: 2 } }),
  );
  expect(await turn).toMatchObject({ kind: "done", value: { finish: { kind: "length", limit: "max-tokens" } } });
  expect(numCalls).toBe(1);
});

test("a reply that is asked for while the gate is closed waits for it", async () => {
  const { engine, requests, step } = steppedEngine([10]);
  const gate = new Gate();
  gate.close();
  const turn = generateTurn(recorded(engine, requests), gate, request({}));
  await settle();
  expect(requests).toHaveLength(0);
  gate.open();
  await step(3);
  expect(await turn).toMatchObject({ kind: "done" });
});

test("a gate that opens and closes again at once lets nothing through", async () => {
  const { engine, requests, step } = steppedEngine([10]);
  const gate = new Gate();
  gate.close();
  const turn = generateTurn(recorded(engine, requests), gate, request({}));
  await settle();
  gate.open();
  gate.close();
  await settle();
  expect(requests).toHaveLength(0);
  gate.open();
  await step(3);
  expect(await turn).toMatchObject({ kind: "done" });
});

test("an abort ends a running reply and a held one, and the engine has nothing left", async () => {
  for (const isHeld of [false, true]) {
    const { engine, requests, step } = steppedEngine([10, 11, 12]);
    const gate = new Gate();
    const controller = new AbortController();
    const turn = generateTurn(recorded(engine, requests), gate, request({}, controller.signal));
    await step(1);
    if (isHeld) gate.close();
    await settle();
    controller.abort();
    expect(await turn).toEqual({ kind: "aborted" });
    expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 });
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  }
});

test("an engine that rejects, and one that never answers, fail the reply", async () => {
  const broken = await generateTurn(() => Promise.reject(new Error("no device")), new Gate(), request({}));
  expect(broken).toMatchObject({ kind: "failed", stage: "generation", error: { message: "Reply failed: no device" } });
  const gate = new Gate();
  const signals: AbortSignal[] = [];
  const hangs = await generateTurn(
    ({ signal }) => {
      signals.push(signal!);
      return new Promise(() => {});
    },
    gate,
    {
      ...request({}),
      wait: { stage: "generation", name: "Reply", timeoutMs: 5, signal: new AbortController().signal },
    },
  );
  expect(hangs).toMatchObject({ kind: "failed", error: { code: "TIMEOUT" } });
  expect(signals[0]?.aborted).toBe(true);
});

test("an engine that never answers leaves no listener at the gate", async () => {
  let numListening = 0;
  class CountedGate extends Gate {
    override onClose(listener: () => void) {
      numListening++;
      const unlisten = super.onClose(listener);
      return () => {
        numListening--;
        unlisten();
      };
    }
  }
  const wait = { stage: "generation", name: "Reply", timeoutMs: 5, signal: new AbortController().signal } as const;
  await generateTurn(() => new Promise(() => {}), new CountedGate(), { ...request({}), wait });
  expect(numListening).toBe(0);
});

function request(changes: Partial<TurnRequest>, signal = new AbortController().signal): TurnRequest {
  const { sampling, ...rest } = changes;
  return {
    promptIds: Int32Array.of(1, 2),
    sampling: { maxTokens: 100, stopIds: [258], seed: 9, ...sampling },
    wait: { stage: "generation", name: "Reply", timeoutMs: 60_000, signal },
    clock: () => 0,
    ...rest,
  };
}

/** An engine that continues a fixed text, and takes a step only when told to. */
function steppedEngine(text: readonly number[]) {
  const waiting: (() => void)[] = [];
  const requests: GenerateRequest[] = [];
  const engine = createScriptedEngine({
    reply: ({ promptIds }) => ({ tokenIds: text.slice(promptIds.length - 2) }),
    beforeStep: () => new Promise<void>((resolve) => waiting.push(resolve)),
  });
  const step = async (count: number) => {
    for (let i = 0; i < count; i++) {
      await settle();
      waiting.shift()?.();
    }
    await settle();
  };
  return { engine, requests, step };
}

function recorded(engine: ScriptedEngine, requests: GenerateRequest[]) {
  return (asked: GenerateRequest) => {
    requests.push(asked);
    return engine.generate(asked);
  };
}

function generation(ids: readonly number[], finish: Generation["finish"]): Generation {
  const zeros = new Float32Array(ids.length);
  const usage = { promptTokens: 0, cachedTokens: 0, generatedTokens: ids.length };
  return {
    ...{ tokenIds: Int32Array.from(ids), samplerLogprobs: zeros, drawLogprobs: zeros, modelLogprobs: zeros },
    ...{ versions: new Int32Array(ids.length), cacheVersions: new Int32Array(ids.length) },
    ...{ finish, usage },
  };
}

async function settle(): Promise<void> {
  for (let i = 0; i < 4; i++) await new Promise((resolve) => setImmediate(resolve));
}
