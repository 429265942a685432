/** Weights through files: to a fake SGLang server, and to a real server of this project over a real engine. */
import { randomUUID } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { startThreadedEngine, type ThreadedEngine } from "../../src/generation/local/threaded-engine.ts";
import { connectRemote } from "../../src/generation/remote/connect-remote.ts";
import { RemoteWeights } from "../../src/generation/remote/remote-weights.ts";
import { createServer } from "../../src/generation/server/create-server.ts";
import { loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { createFileSync, type FileTarget } from "../../src/weight-sync/file-sync.ts";

const TINY = "fixtures/hf-tiny/qwen2";

let folder: string;
const closing: (() => void | Promise<void>)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-weights-"));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true, force: true });
});

async function saveText(place: string): Promise<void> {
  mkdirSync(place);
  writeFileSync(join(place, "model.safetensors"), "weights!");
}

/** Remembers what it was told, and which files were there then. */
function spyTarget(): FileTarget & { readonly told: [string, number, boolean][] } {
  const told: [string, number, boolean][] = [];
  return {
    told,
    loadWeights: async (place, version) => {
      told.push([place, version, existsSync(join(place, "model.safetensors"))]);
    },
  };
}

test("a version is complete before servers are told of it, and only the last ones are kept", async () => {
  const [first, second] = [spyTarget(), spyTarget()];
  const root = join(folder, "weights");
  let now = 0;
  const clock = () => (now += 5);
  const sync = createFileSync({ saveModel: saveText, folder: root, targets: [first, second], clock });
  expect(await sync.publish(0)).toEqual({ "sync/ms": 5, "sync/bytes": 16 });
  for (const version of [1, 2, 3]) await sync.publish(version);
  expect(first.told).toEqual([0, 1, 2, 3].map((version) => [join(root, `v${version}`), version, true]));
  expect(second.told).toEqual(first.told);
  expect(readdirSync(root).sort()).toEqual(["v2", "v3"]);
  // A run that goes on from an older checkpoint publishes lower numbers again.
  await sync.publish(1);
  expect(readdirSync(root)).toEqual(["v1"]);
});

test("a draft that a killed process has left behind is written again", async () => {
  const target = spyTarget();
  mkdirSync(join(folder, "v7.writing"));
  writeFileSync(join(folder, "v7.writing", "half"), "");
  await createFileSync({ saveModel: saveText, folder, targets: [target], clock: () => 0 }).publish(7);
  expect(readdirSync(join(folder, "v7"))).toEqual(["model.safetensors"]);
});

test("adapters alone are refused before any server is told", async () => {
  const target = spyTarget();
  const saveModel = async (place: string) => {
    mkdirSync(place);
    writeFileSync(join(place, "adapter_config.json"), "{}");
  };
  const sync = createFileSync({ saveModel, folder, targets: [target], clock: () => 0 });
  await expect(sync.publish(1)).rejects.toThrow(/Save them with trainer.saveMerged/);
  expect(target.told).toEqual([]);
});

test("SGLang is told the folder and the version, and a refusal in its answer is an error", async () => {
  const requests: unknown[] = [];
  const server = createHttpServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    requests.push([request.url, request.headers.authorization, JSON.parse(body)]);
    const isFirst = requests.length === 1;
    response.end(JSON.stringify({ success: isFirst, message: isFirst ? "Succeeded." : "no such file" }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const target = new RemoteWeights({ kind: "sglang", url, apiKey: "secret", run: "run-a" });
  closing.push(() => target.close());
  const sync = createFileSync({ saveModel: saveText, folder, targets: [target], clock: () => 0 });
  await sync.publish(12);
  const place = join(folder, "v12");
  expect(requests).toEqual([
    [
      "/update_weights_from_disk",
      "Bearer secret",
      { model_path: place, weight_version: "run-a/12", flush_cache: true },
    ],
  ]);
  await expect(sync.publish(13)).rejects.toThrow(/update_weights_from_disk did not work: no such file/);
});

async function startReroll(): Promise<{ engine: ThreadedEngine; url: string }> {
  const engine = await startThreadedEngine({ folder: TINY, options: { contextLength: 64 } });
  closing.push(() => engine.close());
  const server = createServer(
    {
      ...{ engine, tokenizer: await loadTokenizer("fixtures/tokenizer"), modelName: "tiny", clock: Date.now },
      ...{ newId: randomUUID, onError: () => {} },
      weights: { root: folder, load: (place, version) => engine.loadWeights(version, place) },
    },
    { apiKey: "secret" },
  );
  closing.push(() => server.close());
  return { engine, url: await server.listen() };
}

const request = { promptIds: [3, 1, 4, 1, 5], sampling: { maxTokens: 6, temperature: 0 } };

test("a server of this project draws with the trainer's new weights, and says so", async () => {
  const { engine, url } = await startReroll();
  const before = await engine.generate(request);
  const trained = loadCausalLm(TINY, { device: "cpu", dtype: "float32" });
  closing.push(() => trained.dispose());
  noGrad(() => tensorScope(() => trained.parameters().forEach((parameter) => void parameter.mul_(1.5).add_(0.01))));
  const target = new RemoteWeights({ run: "run-b", kind: "reroll", url, apiKey: "secret" });
  closing.push(() => target.close());
  const saveModel = async (place: string) => saveCausalLm(trained, place);
  const sync = createFileSync({ saveModel, folder, targets: [target], clock: () => performance.now() });
  const metrics = await sync.publish(5);
  expect(metrics["sync/bytes"]).toBe(statSync(join(folder, "v5", "model.safetensors")).size);
  expect(metrics["sync/ms"]).toBeGreaterThan(0);
  const after = await engine.generate(request);
  expect([...before.versions]).toEqual([0, 0, 0, 0, 0, 0]);
  expect([...after.versions]).toEqual([5, 5, 5, 5, 5, 5]);
  expect([...after.samplerLogprobs, ...after.modelLogprobs]).not.toEqual([
    ...before.samplerLogprobs,
    ...before.modelLogprobs,
  ]);
  // The same as an engine that started with these weights.
  const fresh = await startThreadedEngine({ folder: join(folder, "v5"), version: 5, options: { contextLength: 64 } });
  closing.push(() => fresh.close());
  expect(await fresh.generate(request)).toMatchObject({ tokenIds: after.tokenIds, modelLogprobs: after.modelLogprobs });
});

test("versions are counted per run, and a run whose server was taken over is told so", async () => {
  const { url } = await startReroll();
  for (const name of ["a", "b"]) cpSync(TINY, join(folder, name), { recursive: true });
  const connect = async (run: string) => {
    const server = { kind: "reroll", url, apiKey: "secret", retryDelayMs: 1 } as const;
    const weights = new RemoteWeights({ ...server, run });
    const remote = await connectRemote({ ...server, weights });
    closing.push(
      () => weights.close(),
      () => remote.close(),
    );
    return { weights, remote };
  };
  const first = await connect("first");
  await first.weights.loadWeights(join(folder, "a"), 7);
  expect([...(await first.remote.generate(request)).versions]).toEqual(new Array(6).fill(7));
  await expect(first.weights.loadWeights(join(folder, "a"), 6)).rejects.toThrow(
    "version must be at least 7, which this run has published: got 6.",
  );
  const second = await connect("second");
  // A reply of the first run that is under way ends with it.
  const cut = first.remote.generate({ ...request, sampling: { maxTokens: 50, seed: 1 } });
  await second.weights.loadWeights(join(folder, "b"), 0);
  expect([...(await second.remote.generate(request)).versions]).toEqual(new Array(6).fill(0));
  expect(new Set((await cut).versions).has(0)).toBe(false);
  const late = await first.remote.generate(request);
  expect(late).toMatchObject({ finish: { kind: "failed", error: { code: "REMOTE_TAKEN" } } });
  expect(late.tokenIds).toHaveLength(0);
  await expect(first.weights.loadWeights(join(folder, "a"), 8)).rejects.toMatchObject({ code: "REMOTE_TAKEN" });
  expect([...(await second.remote.generate(request)).versions]).toEqual(new Array(6).fill(0));
});

test("the route needs the key, and takes folders under its root alone", async () => {
  const { engine, url } = await startReroll();
  const post = async (body: object, key: string) => {
    const response = await fetch(`${url}/v1/weights`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
    return [response.status, await response.text()] as const;
  };
  expect((await post({ path: folder, version: 1 }, "guess"))[0]).toBe(401);
  symlinkSync(join(process.cwd(), TINY), join(folder, "link"));
  for (const path of [
    TINY,
    join(process.cwd(), TINY),
    join(folder, "link"),
    join(folder, "none"),
    folder,
    `${folder}/..`,
  ]) {
    const [status, text] = await post({ path, version: 1 }, "secret");
    expect(status).toBe(400);
    expect(text).toContain("path must be a folder under");
  }
  expect((await post({ path: folder, version: -1 }, "secret"))[1]).toContain("version must be a whole number");
  // A folder without weights leaves the engine as it was.
  mkdirSync(join(folder, "empty"));
  expect((await post({ path: join(folder, "empty"), version: 1 }, "secret"))[0]).toBe(400);
  expect(engine.status().version).toBe(0);
});

test("a server that loads weights does not start without a key", async () => {
  const engine = await startThreadedEngine({ folder: TINY, options: { contextLength: 64 } });
  closing.push(() => engine.close());
  const tokenizer = await loadTokenizer("fixtures/tokenizer");
  const parts = { engine, tokenizer, modelName: "tiny", clock: Date.now, newId: randomUUID, onError: () => {} };
  expect(() => createServer({ ...parts, weights: { root: folder, load: async () => {} } })).toThrow(/needs an API key/);
});
