/** Environments and rewards on other machines: a run that has them there ends as one that has them here, whatever is lost on the way. */
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test, vi } from "vitest";
import { remoteEnv } from "../../src/envs/remote/remote-env.ts";
import { remoteReward } from "../../src/rewards/remote-reward.ts";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { serveWorld } from "../../src/run/serve-world.ts";
import type { RunningService } from "../../src/services/start-service.ts";
import { rewardInput } from "../rewards/reward-input.ts";
import { digestOf, type SmallRun, trainSmall } from "../runs/small-run.ts";

const lake = { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null };
const rewards = { default: { type: "length", curve: { shape: "cosine", maxTokens: 8 } } };

/** A run file without what training needs beside its world. */
const world = { envs: { lake }, rewards };

function trained(changes: Record<string, unknown>): Promise<SmallRun> {
  return trainSmall({
    ...{ model: { preset: "nano" }, envs: { lake }, rewards, loop: { type: "sync", steps: 2 } },
    rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 128, sampling: { maxTokens: 4 } },
    training: { optimizer: { lr: 1e-3 }, threads: 1 },
    engine: { threads: 1 },
    ...changes,
  });
}

function serve(raw: Record<string, unknown> = world, port = 0): Promise<RunningService> {
  const file = { model: { preset: "nano" }, training: { optimizer: { lr: 1e-3 } }, loop: { type: "sync", steps: 1 } };
  const { config } = resolveRun({ ...file, ...raw }, [], {});
  return serveWorld(config, {
    host: "127.0.0.1",
    port,
    apiKey: "secret",
    idleMs: 60_000,
    clock: () => performance.now(),
  });
}

interface Line {
  readonly url: string;
  readonly server: Server;
  numLost(): number;
  /** How many connections to it were open at the same time, at most. */
  mostOpen(): number;
}

/** A line to a server that loses every n-th answer after the server has given it. */
async function lossyLine(target: string, every: number): Promise<Line> {
  let [numAnswers, numLost, numOpen, mostOpen] = [0, 0, 0, 0];
  const server = createServer((incoming, outgoing) => {
    const { method, headers, url } = incoming;
    const onward = request(new URL(url!, target), { ...(method && { method }), headers }, (answer) => {
      const isLost = ++numAnswers % every === 0;
      if (isLost) numLost++;
      answer.on("end", () => isLost && outgoing.destroy());
      if (isLost) answer.resume();
      else answer.pipe(outgoing.writeHead(answer.statusCode!, answer.headers));
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  server.on("connection", (socket) => {
    mostOpen = Math.max(mostOpen, ++numOpen);
    socket.on("close", () => numOpen--);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, server, numLost: () => numLost, mostOpen: () => mostOpen };
}

test("a run file without environments and rewards has nothing to serve", async () => {
  await expect(serve({ data: { type: "rows", rows: [{ prompt: "1 + 1" }] } })).rejects.toThrow(
    "envs and rewards are both empty: there is nothing to serve.",
  );
});

test("a run from a preset has the same words and ends with the same weights, to the bit, with its environment and rewards elsewhere and every ninth answer lost", async () => {
  const here = await trained({});
  const service = await serve();
  const line = await lossyLine(service.url, 9);
  try {
    const there = { url: line.url, apiKey: "secret" };
    const away = await trained({
      envs: { lake: { type: "remote", ...there } },
      rewards: { default: { type: "remote", name: "length", ...there } },
    });
    expect(line.numLost()).toBeGreaterThan(3);
    expect(digestOf(away.weights)).toBe(digestOf(here.weights));
    expect(away.trajectories.map(({ turns }) => turns.length)).toEqual(
      here.trajectories.map(({ turns }) => turns.length),
    );
    expect(here.trajectories.some(({ turns }) => turns.length > 1)).toBe(true);
  } finally {
    line.server.closeAllConnections();
    line.server.close();
    await service.close();
  }
});

test("a run has no more connections to its server of environments than episodes under way, and one for prompts", async () => {
  const service = await serve({ envs: { lake } });
  const line = await lossyLine(service.url, Infinity);
  try {
    const rollout = { groupsPerStep: 4, groupSize: 4, contextLength: 128, sampling: { maxTokens: 2 }, maxInFlight: 8 };
    await trained({ envs: { lake: { type: "remote", url: line.url, apiKey: "secret" } }, rewards: {}, rollout });
    expect(line.mostOpen()).toBeLessThanOrEqual(8 + 1);
  } finally {
    line.server.closeAllConnections();
    line.server.close();
    await service.close();
  }
});

test("an episode goes on at another server, or at one that started again, where it was", async () => {
  const [first, second] = [await serve(), await serve()];
  const { makeEnv, fetchPrompt } = remoteEnv.build(
    remoteEnv.options.parse({ url: [first.url, second.url], apiKey: "secret" }),
  );
  const signal = new AbortController().signal;
  const prompt = await fetchPrompt!(7);
  expect(prompt).toMatchObject({ domain: "lake", seed: 7 });
  const reply = { text: "Left", isCut: false };
  const env = await makeEnv(prompt, 3);
  const other = await makeEnv(prompt, 3);
  const opening = await env.start(signal);
  expect(await other.start(signal)).toEqual(opening);
  const step = await env.step(reply, signal);
  expect(await other.step(reply, signal)).toEqual(step);
  const port = Number(new URL(first.url).port);
  await first.close();
  const again = await serve(world, port);
  // One of the two lived on the first server; its session is gone, and its next step is that of the other.
  expect(await env.step(reply, signal)).toEqual(await other.step(reply, signal));
  await Promise.all([env.end?.(), other.end?.()]);
  await Promise.all([again.close(), second.close()]);
});

test("an episode outlives servers that are not there yet, and gives up on one that loses it again and again", async () => {
  let numOpened = 0;
  let losesCalls = false;
  const server = createServer((incoming, outgoing) => {
    const isLost = incoming.url === "/v1/sessions" ? ++numOpened <= 6 : losesCalls;
    const answer = isLost ? { error: { code: "ENV_SESSION_LOST", message: "not here" } } : { answer: { seen: "all" } };
    incoming.resume();
    outgoing.writeHead(isLost ? 404 : 200).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { makeEnv } = remoteEnv.build(remoteEnv.options.parse({ url }));
    const env = await makeEnv(promptOf(7), 3);
    expect(numOpened).toBe(7);
    const { signal } = new AbortController();
    expect(await env.start(signal)).toEqual({ seen: "all" });
    losesCalls = true;
    await expect(env.step({ text: "Left", isCut: false }, signal)).rejects.toThrow(
      'The episode of prompt "7" lost its session in the environment "-" 4 times',
    );
    expect(numOpened).toBe(10);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

/** A line to a server that can be hung: it takes what comes, and neither passes it on nor answers. */
async function hangingLine(target: string) {
  const taken: string[] = [];
  let isHung = false;
  const server = createServer((incoming, outgoing) => {
    taken.push(incoming.url!);
    if (isHung) return;
    const { method, headers, url } = incoming;
    const onward = request(new URL(url!, target), { ...(method && { method }), headers }, (answer) =>
      answer.pipe(outgoing.writeHead(answer.statusCode!, answer.headers)),
    );
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    hang: () => {
      isHung = true;
    },
    close: () => server.close().closeAllConnections(),
  };
}

/** The time in which a silent server is found out, once it was asked something. */
async function passSilence({ taken }: { readonly taken: readonly string[] }): Promise<void> {
  const isAsked = () => taken.at(-1) === "/v1/environments";
  vi.advanceTimersByTime(10_000);
  await vi.waitFor(() => expect(isAsked()).toBe(true));
  vi.advanceTimersByTime(10_000);
}

test("a server that hangs loses its episodes to another one within 20 seconds, and gets no new ones although it has the fewest", async () => {
  const service = await serve({ envs: { lake } });
  const [hanging, good] = [await hangingLine(service.url), await hangingLine(service.url)];
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  try {
    const { makeEnv, fetchPrompt } = remoteEnv.build(
      remoteEnv.options.parse({ url: [hanging.url, good.url], apiKey: "secret" }),
    );
    const { signal } = new AbortController();
    const prompt = await fetchPrompt!(7);
    const env = await makeEnv(prompt, 3);
    const opening = await env.start(signal);
    expect(good.taken).toEqual([]);
    hanging.hang();
    const numTaken = hanging.taken.length;
    const step = env.step({ text: "Left", isCut: false }, signal);
    await vi.waitFor(() => expect(hanging.taken.length).toBe(numTaken + 1));
    await passSilence(hanging);
    expect(await step).toMatchObject({ kind: "continues" });
    // Opened, played to where it was, and asked what the other one did not answer.
    expect(good.taken).toHaveLength(3);
    const numAsked = hanging.taken.length;
    const next = await makeEnv(prompt, 3);
    expect(await next.start(signal)).toEqual(opening);
    await fetchPrompt!(8);
    expect(hanging.taken.length).toBe(numAsked);
    // After a minute it may be back.
    vi.advanceTimersByTime(60_000);
    void Promise.resolve(makeEnv(prompt, 3)).catch(() => {});
    await vi.waitFor(() => expect(hanging.taken.length).toBe(numAsked + 1));
  } finally {
    vi.useRealTimers();
    hanging.close();
    good.close();
    await service.close();
  }
});

test("an episode that is given up on counts until its server has answered, so that one that hangs does not look idle", async () => {
  const service = await serve({ envs: { lake } });
  const [hanging, good] = [await hangingLine(service.url), await hangingLine(service.url)];
  try {
    const { makeEnv } = remoteEnv.build(
      remoteEnv.options.parse({ url: [hanging.url, good.url], apiKey: "secret", env: "lake" }),
    );
    const prompt = { ...promptOf(7), domain: "lake" };
    const env = await makeEnv(prompt, 3);
    hanging.hang();
    void env.end?.();
    await vi.waitFor(() => expect(hanging.taken).toHaveLength(2));
    await makeEnv(prompt, 3);
    expect(good.taken).toEqual(["/v1/sessions"]);
  } finally {
    hanging.close();
    good.close();
    await service.close();
  }
});

test("a reward server that hangs loses its scores to another one, and the next ones begin there", async () => {
  const service = await serve();
  const [hanging, good] = [await hangingLine(service.url), await hangingLine(service.url)];
  hanging.hang();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  try {
    const given = { url: [hanging.url, good.url], apiKey: "secret" };
    const { score } = await remoteReward.build(remoteReward.options.parse(given), {});
    const { signal } = new AbortController();
    const input = rewardInput("Left");
    const first = score(input, signal);
    await vi.waitFor(() => expect(hanging.taken).toEqual(["/v1/scores"]));
    await passSilence(hanging);
    const { value } = await first;
    for (let i = 0; i < 4; i++) expect(await score(input, signal)).toMatchObject({ value });
    expect(hanging.taken).toEqual(["/v1/scores", "/v1/environments"]);
  } finally {
    vi.useRealTimers();
    hanging.close();
    good.close();
    await service.close();
  }
});

test("a score outlives a reward server that is lost for longer than one ask lasts, and gives up on one that stays away", async () => {
  let [numAsked, numLost] = [0, 1];
  const server = createServer((incoming, outgoing) => {
    const isLost = ++numAsked <= numLost;
    incoming.resume();
    const answer = isLost ? { error: { code: "SERVICE_LOST", message: "not here" } } : { value: 1 };
    outgoing.writeHead(isLost ? 422 : 200).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { score } = await remoteReward.build(remoteReward.options.parse({ url }), {});
    const { signal } = new AbortController();
    // Nobody has answered yet: the address may be wrong.
    await expect(score(rewardInput("Left"), signal)).rejects.toThrow("not here");
    expect(await score(rewardInput("Left"), signal)).toMatchObject({ value: 1 });
    numLost = numAsked + 3;
    expect(await score(rewardInput("Left"), signal)).toMatchObject({ value: 1 });
    expect(numAsked).toBe(1 + 1 + 4);
    numLost = Infinity;
    await expect(score(rewardInput("Left"), signal)).rejects.toThrow("not here");
    expect(numAsked).toBe(6 + 14);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("what an environment elsewhere throws fails its own trajectories, with its words, and is no reward of 0", async () => {
  const broken = {
    makeEnv: () => ({ start: () => Promise.reject(new Error("no dice today")), step: () => Promise.reject() }),
  };
  const service = await serve({ envs: { dice: { type: "custom", ...broken, makePrompt: promptOf } }, rewards: {} });
  try {
    const dice = { type: "remote", url: service.url, apiKey: "secret" };
    await expect(trained({ envs: { dice }, rewards: {} })).rejects.toThrow("no dice today");
    const promptWith = (changes: object) =>
      remoteEnv.build(remoteEnv.options.parse({ url: service.url, apiKey: "secret", ...changes })).fetchPrompt!(1);
    await expect(promptWith({ apiKey: "guess" })).rejects.toThrow("The API key is wrong");
    await expect(promptWith({ env: "lake" })).rejects.toThrow(
      'This server has the environments "dice", and "lake" was asked for.',
    );
  } finally {
    await service.close();
  }
});

test("a prompt that JSON cannot hold fails by itself, and its server serves on", async () => {
  const makePrompt = (seed: number) => ({ ...promptOf(seed), extra: { big: seed === 1 ? 1n : 1 } });
  const makeEnv = () => ({ start: () => Promise.reject(), step: () => Promise.reject() });
  const service = await serve({ envs: { dice: { type: "custom", makeEnv, makePrompt } }, rewards: {} });
  try {
    const { fetchPrompt } = remoteEnv.build(remoteEnv.options.parse({ url: service.url, apiKey: "secret" }));
    await expect(fetchPrompt!(1)).rejects.toThrow("Do not know how to serialize a BigInt");
    expect(await fetchPrompt!(2)).toMatchObject({ id: "2", extra: { big: 1 } });
  } finally {
    await service.close();
  }
});

function promptOf(seed: number) {
  return { id: String(seed), domain: "dice", seed, messages: [{ role: "user", content: "?" }], truth: null, extra: {} };
}
