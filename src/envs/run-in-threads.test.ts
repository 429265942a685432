import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, describe, expect, test, vi } from "vitest";
import { faultyEnvs } from "../../test/contracts/faulty-envs.ts";
import { buildEnv, catalogModule } from "./catalog.ts";
import { playEpisode, randomAgent } from "./play-episode.ts";
import { runInThreads, type ThreadHostOptions } from "./run-in-threads.ts";
import type { TextEnv } from "./text-env.ts";

const never = new AbortController().signal;
const say = (env: TextEnv, text: string, signal = never) => env.step({ text, isCut: false }, signal);
const prompt = (seed: number) => faultyEnvs({}).makePrompt!(seed);
const module = new URL("../../test/contracts/faulty-envs.ts", import.meta.url).href;
const start = (options: Partial<ThreadHostOptions> = {}) => {
  const host = runInThreads({ module, exportName: "faultyEnvs", numThreads: 2, name: "faulty", ...options });
  afterAll(() => host.close());
  return host;
};

test.each(["frozen-lake", "sokoban"])("episodes of %s go in a thread as they go here", async (type) => {
  const here = buildEnv({ type });
  const there = start({ module: catalogModule, exportName: "buildEnv", options: { type } });
  for (let seed = 0; seed < 5; seed++) {
    const local = await playEpisode(await here.makeEnv(here.makePrompt!(seed), seed), randomAgent(seed));
    const replies = local.turns.map(({ reply }) => reply);
    const env = await there.makeEnv(here.makePrompt!(seed), seed);
    expect(await playEpisode(env, () => replies.shift()!)).toEqual(local);
    expect(env.render?.()).toBe(local.turns.at(-1)?.step.observation?.stateKey);
  }
});

test("episodes are spread over the threads, and those that ended make room", async () => {
  const host = start();
  const envs = await Promise.all([0, 1, 2, 3].map((seed) => host.makeEnv(prompt(seed), 0)));
  const threads = await Promise.all(envs.map(async (env) => (await say(env, "echo")).reward));
  expect(new Set(threads).size).toBe(2);
  expect(threads.filter((thread) => thread === threads[0])).toHaveLength(2);
  await envs[1]!.end?.();
  await envs[1]!.end?.();
  const next = await host.makeEnv(prompt(9), 0);
  expect((await say(next, "echo")).reward).toBe(threads[1]);
});

test("threads start when all have an episode, up to the limit, and end when they have had none for a while", async () => {
  const host = start({ numThreads: 2, idleMs: 20 });
  const threadsOf = async (numEpisodes: number) => {
    const envs = await Promise.all(Array.from({ length: numEpisodes }, (_, seed) => host.makeEnv(prompt(seed), 0)));
    const threads = await Promise.all(envs.map(async (env) => (await say(env, "echo")).reward));
    await Promise.all(envs.map((env) => env.end?.()));
    return threads;
  };
  // Threads are numbered as they start.
  const [first] = await threadsOf(1);
  expect(await threadsOf(1)).toEqual([first]);
  const [, second] = (await threadsOf(2)).sort((one, other) => one - other);
  expect(second).toBeGreaterThan(first!);
  // One is always kept; the other is another one once it has ended.
  await vi.waitFor(async () => expect(Math.max(...(await threadsOf(2)))).toBeGreaterThan(second!), { interval: 60, timeout: 10_000 });
});

test("what an environment throws fails its own step, by name, and nothing else", async () => {
  const host = start({ numThreads: 1 });
  const [one, two] = [await host.makeEnv(prompt(0), 0), await host.makeEnv(prompt(1), 0)];
  await expect(say(one, "throw")).rejects.toMatchObject({
    code: "ENV_FAILED",
    message: 'Env "faulty" failed: told to',
  });
  await expect(say(one, "uncloneable")).rejects.toThrow(/Env "faulty" failed: .*could not be cloned/);
  await expect(host.makeEnv(prompt(666), 0)).rejects.toThrow(/cannot be made/);
  expect((await say(two, "echo")).kind).toBe("continues");
});

test.each(["hang", "hang later"])(
  "a thread that is lost to a %s fails that episode; the others go on in another thread, where they were",
  async (fault) => {
    const host = start({ numThreads: 1, timeoutMs: 1000 });
    const [culprit, busy, idle] = await Promise.all([0, 1, 2].map((seed) => host.makeEnv(prompt(seed), 0)));
    for (const env of [busy!, idle!]) {
      await env.start(never);
      expect((await say(env, "count")).reward).toBe(1);
    }
    const [failed, counted] = await Promise.allSettled([say(culprit!, fault), say(busy!, "count")]);
    expect(failed).toMatchObject({
      reason: { code: "ENV_THREAD_LOST", message: expect.stringContaining("its thread said nothing for 1000 ms") },
    });
    expect(counted).toMatchObject({ value: { reward: 2 } });
    expect((await say(idle!, "count")).reward).toBe(2);
    for (const env of [culprit!, busy!, idle!]) await env.end?.();
  },
);

test("an episode that does otherwise when it is played again fails, and is told to draw from its seed", async () => {
  const host = start({ numThreads: 1, timeoutMs: 1000 });
  const [culprit, odd] = await Promise.all([0, 1].map((seed) => host.makeEnv(prompt(seed), 0)));
  // Answers with the number of its thread, which the next thread does not have.
  await say(odd!, "echo");
  await expect(say(culprit!, "hang")).rejects.toThrow(/said nothing/);
  await expect(say(odd!, "count")).rejects.toThrow(
    /did otherwise when it was played again .* Draw all chance from the seed/,
  );
});

test("a call that never answers fails after its limit, and its thread lives on", async () => {
  const host = start({ numThreads: 1, timeoutMs: 200 });
  const [silent, other] = await Promise.all([0, 1].map((seed) => host.makeEnv(prompt(seed), 0)));
  await expect(say(silent!, "wait")).rejects.toMatchObject({ code: "TIMEOUT" });
  expect((await say(other!, "count")).reward).toBe(1);
});

test.each([
  ["crash", /Env "faulty" failed: crashed as told/],
  ["exit", /process.exit\(3\) was called/],
])("an environment whose thread would %s fails its own step, and its neighbors play on", async (fault, message) => {
  const host = start({ numThreads: 1 });
  const [first, neighbor] = await Promise.all([0, 1].map((seed) => host.makeEnv(prompt(seed), 0)));
  await expect(say(first!, fault)).rejects.toThrow(message);
  expect((await say(neighbor!, "echo")).kind).toBe("continues");
});

test("what an environment replaces of the language is put back before anything else of its thread runs", async () => {
  const told: string[] = [];
  const host = start({ numThreads: 1, report: (text) => told.push(text) });
  const [first, neighbor] = await Promise.all([0, 1].map((seed) => host.makeEnv(prompt(seed), 0)));
  expect((await say(first!, "replace")).kind).toBe("continues");
  expect((await say(neighbor!, "count")).reward).toBe(1);
  expect(told).toEqual([
    'Env "faulty" replaced Array.prototype.push, which everything in its thread is made of. It was put back.',
  ]);
});

test.each([
  ["lock", /its thread ended with code 1/],
  ["forge", /its thread sent what is no message/],
  ["break", /its thread crashed: harmed as told/],
])(
  "an environment that spoils its thread with a %s loses it at once, and another one is started",
  async (fault, message) => {
    const host = start({ numThreads: 1 });
    await expect(say(await host.makeEnv(prompt(0), 0), fault)).rejects.toThrow(message);
    expect((await say(await host.makeEnv(prompt(1), 0), "count")).reward).toBe(1);
  },
);

test("what an environment throws outside of its calls is told with its name", async () => {
  const told: string[] = [];
  const host = start({ numThreads: 1, report: (text) => void told.push(text) });
  const env = await host.makeEnv(prompt(0), 0);
  await expect(say(env, "crash")).rejects.toThrow();
  await say(env, "count");
  expect(told).toEqual(['Env "faulty" threw outside of its calls: crashed as told']);
});

test("an aborted step rejects at once, is aborted in the thread too, and the episode can be ended", async () => {
  const host = start({ numThreads: 1 });
  const env = await host.makeEnv(prompt(0), 0);
  const controller = new AbortController();
  const waiting = say(env, "wait", controller.signal);
  await say(env, "echo");
  controller.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  await expect(say(env, "echo", controller.signal)).rejects.toThrow("enough");
  await env.end?.();
});

test("close ends the threads and what waits for them, and nothing can be asked after it", async () => {
  const host = start();
  const env = await host.makeEnv(prompt(0), 0);
  const waiting = say(env, "wait");
  const closing = expect(waiting).rejects.toThrow(/Env "faulty" is gone: it was closed/);
  await host.close();
  await closing;
  await expect(host.makeEnv(prompt(0), 0)).rejects.toThrow(/it was closed/);
  await host.close();
});

test.each([
  [
    "a function that is not there",
    { exportName: "none" },
    /exportName "none" is not a function .* It exports: faultyEnvs/,
  ],
  ["a module that is not there", { module: "file:///no/such/module.ts" }, /could not be built: .*no\/such\/module/],
  ["options that do not work", { options: { fails: true } }, /could not be built: no data here/],
])("%s is told to whoever asks for an episode", async (_, options, message) => {
  await expect(start({ numThreads: 1, ...options }).makeEnv(prompt(0), 0)).rejects.toThrow(message);
});

test("no threads are refused", () => {
  expect(() => runInThreads({ module, exportName: "faultyEnvs", numThreads: 0 })).toThrow(/numThreads must be/);
});

describe("compiled to JavaScript", () => {
  // Below the repository, so that packages are found.
  const folder = fileURLToPath(new URL("../../build/run-in-threads-test/", import.meta.url));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(["catalog.js", "catalog.ts"])("a thread runs the environments of %s", async (file) => {
    const entryPoints = ["run-in-threads", "env-worker", "catalog"].map((name) => {
      return fileURLToPath(new URL(`./${name}.ts`, import.meta.url));
    });
    await build({
      entryPoints,
      outdir: folder,
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      packages: "external",
    });
    const catalog =
      file === "catalog.js" ? `${folder}catalog.js` : fileURLToPath(new URL("./catalog.ts", import.meta.url));
    writeFileSync(
      `${folder}main.mjs`,
      `import { runInThreads } from "./run-in-threads.js";
       const options = { type: "sokoban" };
       const host = runInThreads({ module: ${JSON.stringify(catalog)}, exportName: "buildEnv", options, numThreads: 1 });
       const env = await host.makeEnv({ id: "a", domain: "a", seed: 1, messages: [], truth: null, extra: {} }, 1);
       await env.start(new AbortController().signal);
       process.stdout.write(env.render());
       await host.close();`,
    );
    const shown = execFileSync(process.execPath, [`${folder}main.mjs`], { encoding: "utf8" });
    const here = await buildEnv({ type: "sokoban" }).makeEnv({ ...prompt(1), seed: 1 }, 1);
    expect(shown).toBe(here.render?.());
  });
});
