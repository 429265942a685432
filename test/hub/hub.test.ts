/** Files of the Hub through its cache, against a Hub on this machine. */
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Hub, type HubOptions, type HubProgress } from "../../src/hub/hub.ts";
import { snapshotOrigin, snapshotsNamedIn } from "../../src/hub/hub-cache.ts";
import { hubNameOf, parseHubName } from "../../src/hub/hub-name.ts";
import { hubSettings } from "../../src/hub/hub-settings.ts";
import { modelFiles } from "../../src/hub/model-files.ts";
import { commitOf, TestHub } from "./hub-server.ts";

const weights = Buffer.alloc(300_000, "reroll ");
const model = {
  "config.json": "{}",
  "tokenizer.json": "{}",
  "model.safetensors": weights,
  "pytorch_model.bin": Buffer.alloc(9000),
  "onnx/model.onnx": "x",
};
let folder = "";
let server: TestHub;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "reroll-hub-"));
  server = await TestHub.start();
});
afterEach(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

function hubWith(variables: Readonly<Record<string, string>> = {}, options: HubOptions = {}): Hub {
  const settings = hubSettings({ HF_ENDPOINT: server.endpoint, HF_HOME: folder, ...variables });
  return new Hub(settings, { retryDelaysMs: [0, 0], ...options });
}

async function get(name: string, hub = hubWith()): Promise<string> {
  return hub.fetch(await hub.look("model", parseHubName(name)!, modelFiles));
}

const lines = () => server.requests.map(({ line }) => line);

test("a name is an owner and a name, with a revision and a file where they are wanted; what is on disk is none", () => {
  expect(parseHubName("Qwen/Qwen2.5-0.5B")).toMatchObject({ repo: "Qwen/Qwen2.5-0.5B", revision: "main", file: null });
  expect(parseHubName("a/b@v1.0/x/y.gguf")).toMatchObject({ repo: "a/b", revision: "v1.0", file: "x/y.gguf" });
  expect(parseHubName("a/b@refs/pr/3")).toMatchObject({ revision: "refs/pr/3" });
  for (const path of ["model", "/a/b", "./a/b", "../a", "a/b/../c", "a//b", "C:\\a\\b"])
    expect(parseHubName(path)).toBe(null);
  expect(hubNameOf("src/hub")).toBe(null);
  // A folder that is there is searched for what is missing in it.
  expect(hubNameOf("src/hubb")).toBe(null);
  expect(hubNameOf("hf://src/hubb")).toMatchObject({ repo: "src/hubb" });
});

test("what a model needs lies in the layout of Hugging Face's cache: blobs by hash, links by commit, refs", async () => {
  const repo = server.add("models/me/tiny", model);
  const sha = commitOf(repo);
  const progress: HubProgress[] = [];
  const path = await get("me/tiny", hubWith({}, { onProgress: (one) => progress.push(one) }));
  const cache = join(folder, "hub/models--me--tiny");
  expect(path).toBe(join(cache, "snapshots", sha));
  expect(readdirSync(path)).toEqual(["config.json", "model.safetensors", "tokenizer.json"]);
  expect(readFileSync(join(path, "model.safetensors")).equals(weights)).toBe(true);
  expect(lstatSync(join(path, "config.json")).isSymbolicLink()).toBe(true);
  expect(readFileSync(join(cache, "refs/main"), "utf8")).toBe(sha);
  // git's hash of "{}", and the SHA-256 of the weights.
  expect(new Set(readdirSync(join(cache, "blobs")).map((name) => name.length))).toEqual(new Set([40, 64]));
  expect(existsSync(join(cache, "blobs/9e26dfeeb6e641a33dae4961196235bdb965b21b"))).toBe(true);
  expect(progress.at(-1)).toEqual({ name: "me/tiny", doneBytes: 300_002, totalBytes: 300_002 });
  expect(snapshotOrigin(path)).toEqual({ kind: "model", repo: "me/tiny", sha });
  expect(snapshotsNamedIn(JSON.stringify({ model: { path } }))).toEqual(new Map([["me/tiny", sha]]));

  server.requests.length = 0;
  expect(await get("me/tiny")).toBe(path);
  expect(lines()).toEqual(["GET /api/models/me/tiny/revision/main"]);
});

test("a download that was cut goes on where it was, in the same process and in the next", async () => {
  server.add("models/me/tiny", model);
  // More than one read of the socket, the last of which is lost with the connection.
  server.cuts.set("model.safetensors", 250_000);
  const path = await get("me/tiny");
  expect(readFileSync(join(path, "model.safetensors")).equals(weights)).toBe(true);
  const ranges = server.requests.filter(({ line }) => line.includes("/cdn/")).map(({ range }) => range);
  expect(ranges[0]).toBeUndefined();
  expect(ranges[1]).toMatch(/^bytes=\d+-$/);

  const blobs = join(folder, "hub/models--me--tiny/blobs");
  const blob = readdirSync(blobs).find((name) => name.length === 64)!;
  rmSync(join(blobs, blob));
  writeFileSync(join(blobs, `${blob}.reroll`), weights.subarray(0, 123_456));
  server.requests.length = 0;
  expect(readFileSync(join(await get("me/tiny"), "model.safetensors")).equals(weights)).toBe(true);
  expect(server.requests.find(({ line }) => line.includes("/cdn/"))?.range).toBe("bytes=123456-");
});

test("content that does not have its hash is fetched once more, and then refused", async () => {
  server.add("models/me/tiny", model);
  server.damages.add("model.safetensors");
  expect(readFileSync(join(await get("me/tiny"), "model.safetensors")).equals(weights)).toBe(true);

  server.add("models/me/bad", model);
  const always = new Set<string>(["model.safetensors"]);
  always.delete = () => true;
  Object.assign(server, { damages: always });
  await expect(get("me/bad")).rejects.toMatchObject({ code: "HUB_DAMAGED" });
  expect(existsSync(join(folder, "hub/models--me--bad/snapshots", "model.safetensors"))).toBe(false);
});

test("a revision is taken as it is named, and a run that is resumed keeps the commit it has", async () => {
  const repo = server.add("models/me/tiny", model);
  const sha = commitOf(repo);
  const old = await get(`me/tiny@${sha}`);
  repo.files.set("config.json", Buffer.from("[]"));
  const pinned = hubWith({ HF_HUB_OFFLINE: "1" }, { pins: new Map([["me/tiny", sha]]) });
  expect(await get("me/tiny", pinned)).toBe(old);
  const now = await get("me/tiny");
  expect(readFileSync(join(now, "config.json"), "utf8")).toBe("[]");
  expect(readFileSync(join(old, "config.json"), "utf8")).toBe("{}");
  await expect(get("me/tiny@v9")).rejects.toThrow('The model me/tiny has no revision "v9".');
});

test("a private repository needs a token, which goes to the Hub and not to where the files are", async () => {
  server.add("models/me/secret", model, { isPrivate: true });
  server.add("models/me/gated", model, { isGated: true });
  server.tokens.add("hf_test_token");
  await expect(get("me/secret")).rejects.toThrow(/shows no model me\/secret.*set HF_TOKEN/);
  await expect(get("me/gated")).rejects.toThrow(/gated, and no token is set.*Ask for access at/);
  await expect(get("me/secret", hubWith({ HF_TOKEN: "hf_wrong_token" }))).rejects.toMatchObject({
    code: "HUB_REFUSED",
  });
  await get("me/secret", hubWith({ HF_TOKEN: "hf_test_token" }));
  const seen = server.requests.filter(({ line }) => line.includes("/cdn/"));
  expect(seen.length).toBeGreaterThan(0);
  expect(seen.every(({ hasToken }) => !hasToken)).toBe(true);
  writeFileSync(join(folder, "token"), "hf_test_token\n");
  expect(hubSettings({ HF_HOME: folder }).token?.reveal()).toBe("hf_test_token");
  expect(JSON.stringify(hubSettings({ HF_HOME: folder }))).not.toContain("hf_test");
});

test("offline, the cache is all there is; where the network is gone, what it has is used and that is said", async () => {
  server.add("models/me/tiny", model);
  const offline = { HF_HUB_OFFLINE: "1" };
  await expect(get("me/tiny", hubWith(offline))).rejects.toThrow(/me\/tiny is not in .*HF_HUB_OFFLINE forbids/);
  const path = await get("me/tiny");
  server.requests.length = 0;
  expect(await get("me/tiny", hubWith(offline))).toBe(path);
  expect(server.requests).toEqual([]);
  const gone = hubWith({ HF_ENDPOINT: "http://127.0.0.1:9" });
  expect(await gone.look("model", parseHubName("me/tiny")!, modelFiles)).toMatchObject({
    path,
    note: expect.stringContaining("cannot be reached"),
  });
  await expect(get("me/other", gone)).rejects.toMatchObject({ code: "HUB_UNREACHABLE" });
});

test("a disk without room is found out before anything is fetched", async () => {
  server.add("models/me/tiny", model);
  const hub = hubWith();
  const found = await hub.look("model", parseHubName("me/tiny")!, modelFiles);
  const missing = found.missing.map((file) => ({ ...file, size: 1e18 }));
  await expect(hub.fetch({ ...found, missing })).rejects.toMatchObject({ code: "DISK_FULL" });
  expect(lines()).toEqual(["GET /api/models/me/tiny/revision/main"]);
});

test("two processes that fetch the same model leave one whole copy", async () => {
  server.add("models/me/tiny", model);
  const [one, two] = await Promise.all([get("me/tiny", hubWith()), get("me/tiny", hubWith())]);
  expect(one).toBe(two);
  expect(readFileSync(join(one!, "model.safetensors")).equals(weights)).toBe(true);
  expect(server.requests.filter(({ line }) => line.includes("/cdn/"))).toHaveLength(1);
  expect(readdirSync(join(folder, "hub/models--me--tiny/blobs")).some((name) => name.endsWith(".reroll"))).toBe(false);
});

describe("which files are taken", () => {
  const choose = (...paths: string[]) => modelFiles(paths, async () => null);
  test("whole weights win over shards, as in transformers", async () => {
    const shards = [
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
      "model.safetensors.index.json",
    ];
    expect(await choose("config.json", "README.md", ...shards)).toEqual(["config.json", ...shards]);
    expect(await choose("config.json", "model.safetensors", ...shards)).toEqual(["config.json", "model.safetensors"]);
  });
  test("a repository of GGUF files says which ones to choose from, and one of them can be named", async () => {
    await expect(choose("a-Q4_0.gguf", "a-Q8_0.gguf")).rejects.toThrow(
      "owner/name/a-Q4_0.gguf: a-Q4_0.gguf, a-Q8_0.gguf",
    );
    server.add("models/me/quantized", { "a-Q4_0.gguf": weights, "a-Q8_0.gguf": weights });
    const path = await get("me/quantized/a-Q8_0.gguf");
    expect(path).toMatch(/a-Q8_0\.gguf$/);
    expect(readFileSync(path).equals(weights)).toBe(true);
    await expect(get("me/quantized/b.gguf")).rejects.toThrow("has no b.gguf. It has: a-Q4_0.gguf, a-Q8_0.gguf.");
  });
});
