/** Remote engines against stand-ins for vLLM, SGLang and llama.cpp: the contract, and what each cannot do. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { connectRemote, type RemoteEngine, type RemoteOptions } from "../../src/generation/remote/connect-remote.ts";
import { createScriptedEngine, type ScriptedEngine } from "../../src/testing/scripted-generate.ts";
import { type FakeServer, startFakeLlamaCpp, startFakeSglang, startFakeVllm } from "./fake-servers.ts";
import { describeGenerateContract, type GenerateContractOptions } from "./generate-contract.ts";

const CONTEXT_LENGTH = 400;
const tokenizer = await loadTokenizer("fixtures/tokenizer");
const decode = (ids: Iterable<number>) => tokenizer.decode(ids);
const { vocabularySize } = tokenizer;
const newEngine = () => createScriptedEngine({ source: tokenizer, contextLength: CONTEXT_LENGTH });

function describeRemote(
  name: string,
  kind: RemoteOptions["kind"],
  start: (engine: ScriptedEngine) => Promise<FakeServer>,
  options: GenerateContractOptions,
): void {
  const setUp = async () => {
    const engine = newEngine();
    const server = await start(engine);
    // As for an evaluation: what only training needs is NaN where the server does not report it, instead of refused.
    const remote = await connectRemote({ kind, url: server.url, required: [] });
    const close = async () => {
      remote.close();
      await server.close();
      expect(engine.status()).toMatchObject({ queuedRequests: 0, runningRequests: 0 });
    };
    return { generate: remote.generate, vocabularySize, contextLength: CONTEXT_LENGTH, decode, close };
  };
  describeGenerateContract(name, setUp, options);
}

const noModelLogprobs = { "model log-probs under filters": "not reported; the client says NaN" };
describeRemote("vLLM with processed log-probs", "vllm", (engine) => startFakeVllm(engine, "processed"), {
  skip: noModelLogprobs,
});
describeRemote("SGLang", "sglang", startFakeSglang, {});
describeRemote("llama.cpp", "llama-cpp", (engine) => startFakeLlamaCpp(engine), {
  skip: { ...noModelLogprobs, "stop strings": "refused, see below", "partial replies": "lost, see below" },
});

/** Connects, does something, and closes everything. */
async function withRemote(
  start: (engine: ScriptedEngine) => Promise<FakeServer>,
  options: Omit<RemoteOptions, "url">,
  use: (remote: RemoteEngine, server: FakeServer) => Promise<void>,
): Promise<void> {
  const server = await start(newEngine());
  const remote = await connectRemote({ ...options, url: server.url });
  await use(remote, server);
  remote.close();
  await server.close();
}

const prompt = [72, 105];

describe("vLLM", () => {
  test("raw log-probs are found out, and sampling that they do not describe is refused", () =>
    withRemote(
      (engine) => startFakeVllm(engine, "raw"),
      { kind: "vllm" },
      async ({ generate, missing }) => {
        expect(missing.find((line) => line.startsWith("sampler-logprobs"))).toContain(
          "--logprobs-mode processed_logprobs",
        );
        const plain = await generate({ promptIds: prompt, sampling: { maxTokens: 3, seed: 1 } });
        expect(plain.samplerLogprobs).toEqual(plain.modelLogprobs);
        const cold = generate({ promptIds: prompt, sampling: { maxTokens: 3, temperature: 0.7 } });
        await expect(cold).rejects.toMatchObject({ code: "REMOTE_LOGPROBS_UNKNOWN" });
        await expect(cold).rejects.toThrow("it reports them at temperature 1, and temperature 0.7 makes them differ");
        const cut = await generate({ promptIds: prompt, sampling: { maxTokens: 3, topK: 2, seed: 1 } });
        expect(cut.samplerLogprobs).toEqual(cut.modelLogprobs);
        expect([...cut.drawLogprobs]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
      },
    ));

  test("processed log-probs are found out, and those of the model are NaN where they differ", () =>
    withRemote(
      (engine) => startFakeVllm(engine, "processed"),
      { kind: "vllm" },
      async ({ generate, capabilities }) => {
        expect(capabilities["draw-logprobs"]).toEqual({ has: "yes" });
        const cut = generate({ promptIds: prompt, sampling: { maxTokens: 3, topP: 0.9 } });
        await expect(cut).rejects.toMatchObject({ code: "REMOTE_LOGPROBS_UNKNOWN" });
        await expect(cut).rejects.toThrow("topK, topP or minP makes them differ. Sample without truncation");
        const { samplerLogprobs, modelLogprobs } = await generate({
          promptIds: prompt,
          sampling: { maxTokens: 3, temperature: 0.7 },
        });
        expect(samplerLogprobs.every((logprob) => logprob < 0)).toBe(true);
        expect([...modelLogprobs]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
      },
    ));

  test("versions are those that the caller gives, asked anew for every request", () => {
    let version = 4;
    return withRemote(
      (engine) => startFakeVllm(engine, "raw"),
      { kind: "vllm", version: () => version },
      async ({ generate }) => {
        expect([...(await generate({ promptIds: prompt, sampling: { maxTokens: 2 } })).versions]).toEqual([4, 4]);
        version = 5;
        expect([...(await generate({ promptIds: prompt, sampling: { maxTokens: 1 } })).versions]).toEqual([5]);
      },
    );
  });

  test("the request has vLLM's fields, and no more tokens than fit the context", () =>
    withRemote(
      (engine) => startFakeVllm(engine, "raw"),
      { kind: "vllm" },
      async ({ generate }, { bodies }) => {
        const sampling = {
          maxTokens: 9999,
          stopIds: [65],
          stopStrings: ["x"],
          seed: 3,
          logitBias: new Map([[7, 1.5]]),
        };
        await generate({ promptIds: prompt, sampling });
        expect(bodies.at(-1)).toMatchObject({ logit_bias: { 7: 1.5 } });
        await generate({
          promptIds: prompt,
          sampling: { ...sampling, logitBias: new Map() },
          sessionId: "s",
          numTopLogprobs: 2,
        });
        expect(bodies.at(-1)).toMatchObject({
          ...{ model: "tiny", prompt, max_tokens: CONTEXT_LENGTH - 2, temperature: 1, top_p: 1, top_k: -1, seed: 3 },
          ...{ stop: ["x"], stop_token_ids: [65], ignore_eos: true, logprobs: 2, session_id: "s", stream: true },
          ...{ return_token_ids: true, return_tokens_as_token_ids: true },
        });
      },
    ));
});

describe("SGLang", () => {
  test("log-probs after filters come from the list of their own, and the version from the reply", () =>
    withRemote(startFakeSglang, { kind: "sglang" }, async ({ generate, capabilities }, { bodies }) => {
      const { drawLogprobs, samplerLogprobs, modelLogprobs, versions, usage } = await generate({
        promptIds: prompt,
        sampling: { maxTokens: 4, topK: 1, seed: 1, stopIds: [259] },
      });
      expect([...drawLogprobs]).toEqual([0, 0, 0, 0]);
      expect(samplerLogprobs).toEqual(modelLogprobs);
      const biased = generate({ promptIds: prompt, sampling: { maxTokens: 1, logitBias: new Map([[7, 1]]) } });
      await expect(biased).rejects.toThrow("it reports them after penalties and bias, and logitBias makes them differ");
      expect(modelLogprobs.every((logprob) => logprob < -0.5)).toBe(true);
      expect([...versions]).toEqual([3, 3, 3, 3]);
      expect(usage.cachedTokens).toBe(1);
      expect(bodies.at(-1)).toMatchObject({ return_sampling_mask: true, return_logprob: true, stream: false });
      expect(bodies.at(-1)?.sampling_params).toMatchObject({
        max_new_tokens: 4,
        no_stop_trim: true,
        ignore_eos: false,
      });
      expect(capabilities["stop-ids"].has).toBe("partly");
    }));

  test("an abort asks the server for the tokens so far", async () => {
    let maxTokens = Infinity;
    const engine = createScriptedEngine({
      contextLength: CONTEXT_LENGTH,
      beforeStep: () => (engine.status().counters.generatedTokens < maxTokens ? nextTurn() : new Promise(() => {})),
    });
    const server = await startFakeSglang(engine);
    const remote = await connectRemote({ kind: "sglang", url: server.url });
    maxTokens = engine.status().counters.generatedTokens + 3;
    const controller = new AbortController();
    const running = remote.generate({ promptIds: prompt, sampling: { maxTokens: 390 }, signal: controller.signal });
    await expect.poll(() => engine.status().counters.generatedTokens).toBe(maxTokens);
    controller.abort();
    const { finish, tokenIds } = await running;
    expect(finish).toEqual({ kind: "aborted" });
    expect(tokenIds).toHaveLength(3);
    expect(server.bodies.at(-1)).toEqual({ rid: server.bodies.at(-2)?.rid });
    remote.close();
    await server.close();
  });
});

describe("llama.cpp", () => {
  test("a reply is cut at a stop id, because the server has none", () =>
    withRemote(
      (engine) => startFakeLlamaCpp(engine),
      { kind: "llama-cpp" },
      async ({ generate, facts }, { bodies }) => {
        expect(facts).toEqual({ model: "tiny.gguf", contextLength: CONTEXT_LENGTH });
        const free = await generate({ promptIds: prompt, sampling: { maxTokens: 9, seed: 2 } });
        const tokenId = free.tokenIds[4]!;
        const { tokenIds, finish } = await generate({
          promptIds: prompt,
          sampling: { maxTokens: 9, seed: 2, stopIds: [tokenId] },
        });
        expect([...tokenIds]).toEqual([...free.tokenIds.slice(0, free.tokenIds.indexOf(tokenId) + 1)]);
        expect(finish).toEqual({ kind: "stop", by: "token", tokenId });
        expect(bodies.at(-1)).toMatchObject({
          ...{
            prompt,
            n_predict: 9,
            n_probs: 1,
            post_sampling_probs: true,
            return_tokens: true,
            repeat_last_n: CONTEXT_LENGTH,
          },
          samplers: ["penalties", "temperature", "top_k", "top_p", "min_p"],
        });
      },
    ));

  test("stop strings, and alternatives of a changed distribution, are refused", () =>
    withRemote(
      (engine) => startFakeLlamaCpp(engine),
      { kind: "llama-cpp" },
      async ({ generate, missing }) => {
        const stops = generate({ promptIds: prompt, sampling: { maxTokens: 2, stopStrings: ["x"] } });
        await expect(stops).rejects.toMatchObject({ code: "REMOTE_INCAPABLE" });
        const tops = generate({ promptIds: prompt, sampling: { maxTokens: 2, topK: 3 }, numTopLogprobs: 1 });
        await expect(tops).rejects.toMatchObject({ code: "REMOTE_INCAPABLE" });
        expect(missing.map((line) => line.split(":")[0])).toContain("stop-strings");
      },
    ));

  test("a reply with tokens that have no log-prob fails, and is not made up", async () => {
    const server = await startFakeLlamaCpp(newEngine(), [70]);
    const remote = await connectRemote({ kind: "llama-cpp", url: server.url, required: [] });
    const { finish, tokenIds } = await remote.generate({
      ...{ promptIds: prompt, sampling: { maxTokens: 3, logitBias: new Map([[70, 50]]) } },
    });
    expect(finish).toMatchObject({ kind: "failed", error: { code: "REMOTE_LOGPROBS_UNKNOWN" } });
    expect(tokenIds).toHaveLength(0);
    remote.close();
    await server.close();
  });
});

describe("faults", () => {
  /** A server that answers every request in turn with these. */
  async function startCanned(
    answers: readonly ((write: (text: string) => void, end: () => void, tear: () => void) => void)[],
  ) {
    let numAnswers = 0;
    const server = createServer((request, response) => {
      request.resume();
      if (request.url === "/v1/models") {
        response.end(JSON.stringify({ data: [{ id: "m", max_model_len: 100 }] }));
        return;
      }
      const answer = answers[Math.min(numAnswers++, answers.length - 1)];
      answer?.(
        (text) => response.write(text),
        () => response.end(),
        () => response.destroy(),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return { url, count: () => numAnswers, close: () => void server.closeAllConnections() };
  }

  const chunk = (ids: readonly number[], finish?: string) =>
    `data: ${JSON.stringify({
      choices: [
        {
          token_ids: ids,
          sampler_logprobs: ids.map(() => -1),
          model_logprobs: ids.map(() => -1),
          versions: ids.map(() => 1),
          finish_reason: finish ?? null,
        },
      ],
    })}\n\n`;
  const whole = (write: (text: string) => void, end: () => void) => {
    write(chunk([5, 6], "length"));
    end();
  };
  const options = { kind: "reroll", maxAttempts: 3, retryDelayMs: 1, timeoutMs: 200 } as const;
  const sampling = { maxTokens: 2 };

  test("a server that is silent for too long is asked again", async () => {
    const server = await startCanned([whole, whole, () => {}, whole]);
    const remote = await connectRemote({ ...options, url: server.url });
    const { tokenIds } = await remote.generate({ promptIds: [1], sampling });
    expect([...tokenIds]).toEqual([5, 6]);
    expect(server.count()).toBe(4);
    remote.close();
    server.close();
  });

  test("when it does not heal, the reply ends as failed with what came last", async () => {
    const server = await startCanned([
      whole,
      whole,
      (write, _end, tear) => {
        write(chunk([5]));
        setTimeout(tear, 5);
      },
    ]);
    const remote = await connectRemote({ ...options, url: server.url });
    const { tokenIds, finish } = await remote.generate({ promptIds: [1], sampling });
    expect([...tokenIds]).toEqual([5]);
    expect(finish).toMatchObject({ kind: "failed", error: { code: "REMOTE_UNAVAILABLE" } });
    expect(server.count()).toBe(2 + 3);
    remote.close();
    server.close();
  });

  test("tokens that the caller has seen are not drawn again without a seed, and must repeat with one", async () => {
    const torn = (id: number) => (write: (text: string) => void, _end: () => void, tear: () => void) => {
      write(chunk([id]));
      setTimeout(tear, 5);
    };
    const server = await startCanned([whole, whole, torn(5), torn(5), whole, torn(9), whole]);
    const remote = await connectRemote({ ...options, url: server.url });
    const seen: number[] = [];
    const onTokens = (tokens: { tokenIds: Int32Array }) => seen.push(...tokens.tokenIds);
    const unseeded = await remote.generate({ promptIds: [1], sampling, onTokens });
    expect([unseeded.finish.kind, [...unseeded.tokenIds], seen.splice(0)]).toEqual(["failed", [5], [5]]);
    const seeded = await remote.generate({ promptIds: [1], sampling: { ...sampling, seed: 1 }, onTokens });
    expect([seeded.finish.kind, [...seeded.tokenIds], seen.splice(0)]).toEqual(["length", [5, 6], [5, 6]]);
    const other = await remote.generate({ promptIds: [1], sampling: { ...sampling, seed: 1 }, onTokens });
    expect(other.finish).toMatchObject({ kind: "failed", error: { code: "REMOTE_NOT_REPEATABLE" } });
    expect([...other.tokenIds]).toEqual(seen);
    remote.close();
    server.close();
  });

  test("an abort while waiting for the next attempt ends at once", async () => {
    const server = await startCanned([whole, whole, (_write, _end, tear) => tear()]);
    const remote = await connectRemote({ ...options, url: server.url, retryDelayMs: 60_000, maxRetryDelayMs: 60_000 });
    const controller = new AbortController();
    const running = remote.generate({ promptIds: [1], sampling, signal: controller.signal });
    await expect.poll(() => server.count()).toBe(3);
    controller.abort();
    expect((await running).finish).toEqual({ kind: "aborted" });
    remote.close();
    server.close();
  });

  test("a server that is not there, and one without token ids, fail at the start", async () => {
    const absent = connectRemote({ ...options, url: "http://127.0.0.1:9" });
    await expect(absent).rejects.toMatchObject({ code: "REMOTE_UNAVAILABLE" });
    const server = await startCanned([
      (write, end) => {
        write('data: {"choices": [{"text": "a", "finish_reason": "stop"}]}\n\n');
        end();
      },
    ]);
    const textOnly = connectRemote({ ...options, kind: "vllm", url: server.url });
    await expect(textOnly).rejects.toMatchObject({ code: "REMOTE_INCAPABLE" });
    await expect(textOnly).rejects.toThrow("does not return token ids");
    const unknown = connectRemote({ ...options, url: server.url, model: "other" });
    await expect(unknown).rejects.toThrow("has no model other. It has: m.");
    server.close();
  });
});
