/** The contract of `Generate`, for everything that needs no model. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { connectRemote } from "../../src/generation/remote/connect-remote.ts";
import { createServer } from "../../src/generation/server/create-server.ts";
import { createScriptedEngine } from "../../src/testing/scripted-generate.ts";
import { FAULTS, type FaultyProxy, startFaultyProxy } from "./faulty-proxy.ts";
import { describeGenerateContract, type GenerateUnderTest } from "./generate-contract.ts";

const CONTEXT_LENGTH = 600;
const tokenizer = await loadTokenizer("fixtures/tokenizer");
const { vocabularySize } = tokenizer;
const decode = (ids: Iterable<number>) => tokenizer.decode(ids);

function startEngine() {
  return createScriptedEngine({ source: tokenizer, contextLength: CONTEXT_LENGTH, vocabularySize });
}

async function startServer() {
  const engine = startEngine();
  const ownFaults: unknown[] = [];
  const server = createServer({
    ...{ engine, tokenizer, modelName: "scripted", clock: Date.now, newId: randomUUID },
    onError: (cause) => ownFaults.push(cause),
  });
  const url = await server.listen();
  const close = async () => {
    await server.close();
    await engine.close();
    expect(ownFaults).toEqual([]);
    expect(engine.status()).toMatchObject({ queuedRequests: 0, runningRequests: 0 });
  };
  return { url, close };
}

describeGenerateContract("scripted engine", async () => {
  const engine = startEngine();
  const { generate, close } = engine;
  return { generate, vocabularySize, contextLength: CONTEXT_LENGTH, decode, close: close.bind(engine) };
});

describeGenerateContract("our server through the remote client", async () => {
  const server = await startServer();
  const remote = await connectRemote({ kind: "reroll", url: server.url });
  return underTest(remote.generate, async () => {
    remote.close();
    await server.close();
  });
});

describeGenerateContract("our server behind a network that breaks a third of all requests", async () => {
  const server = await startServer();
  const proxy = await startFaultyProxy(server.url, 0.35, 2024);
  const remote = await connectRemote({
    kind: "reroll",
    url: proxy.url,
    maxAttempts: 14,
    retryDelayMs: 1,
    maxRetryDelayMs: 20,
  });
  return underTest(remote.generate, async () => {
    expectAllFaults(proxy);
    remote.close();
    await proxy.close();
    await server.close();
  });
});

test("the remote client says what our server can do", async () => {
  const server = await startServer();
  const remote = await connectRemote({ kind: "reroll", url: server.url });
  expect(remote.facts).toEqual({ model: "scripted", contextLength: CONTEXT_LENGTH });
  expect(remote.missing).toEqual([]);
  remote.close();
  await server.close();
});

function underTest(generate: GenerateUnderTest["generate"], close: () => Promise<void>): GenerateUnderTest {
  return { generate, vocabularySize, contextLength: CONTEXT_LENGTH, decode, close };
}

function expectAllFaults({ faults }: FaultyProxy): void {
  expect([...faults.keys()]).toEqual([...FAULTS]);
}
