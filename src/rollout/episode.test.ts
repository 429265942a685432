import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { countingEnv, ended, format, task, tokenizer } from "../../test/rollout/episode-parts.ts";
import type { TextEnv } from "../envs/text-env.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Trajectory } from "../flow/trajectory.ts";
import type { RewardOutcome } from "../rewards/score-all.ts";
import { createScriptedEngine, type ScriptedOptions } from "../testing/scripted-generate.ts";
import { createEpisodeRunner, defaultEpisodeLimits, type EpisodeLimits, type EpisodeParts } from "./episode.ts";
import { Gate } from "./gate.ts";

const scored: RewardOutcome = { kind: "scored", score: 0.5, parts: { format: 0.5 }, explanation: "", elapsedMs: 0 };

test("a completed episode has every token, the rewards of its turns and the score", async () => {
  const { trajectory, env } = await play({ env: countingEnv(2), score: async () => scored });
  expect(trajectory).toMatchObject({
    ...{ id: "0-0", groupId: "0", sampleIndex: 0, seed: 5, end: { kind: "completed" } },
    reward: { total: 2.5, score: 0.5, parts: { format: 0.5 } },
    metrics: { cut: 0 },
  });
  expect(trajectory.turns.map(({ replyText, stateKey, finish }) => [replyText, stateKey, finish])).toEqual([
    ["ok", "at 0", "stop"],
    ["ok", "at 1", "stop"],
  ]);
  const [first, second] = trajectory.turns;
  expect([...first!.reply.tokenIds]).toEqual(ended("ok"));
  expect([...second!.promptIds.subarray(0, first!.promptIds.length + 3)]).toEqual([
    ...first!.promptIds,
    ...ended("ok"),
  ]);
  expect(env.numEnds()).toBe(1);
});

test("a turn has the state that it led to, the last one too where the environment shows it", async () => {
  const keys = ({ turns }: Trajectory) => turns.map(({ stateKey, nextStateKey }) => [stateKey, nextStateKey]);
  const { trajectory: cut } = await play({ env: countingEnv(9), limits: { maxTurns: 2 } });
  expect(keys(cut)).toEqual([
    ["at 0", "at 1"],
    ["at 1", "at 2"],
  ]);
  const over = { kind: "terminated", reward: 1, metrics: {}, observation: { messages: [], stateKey: "home" } } as const;
  expect(keys((await play({ env: countingEnv(9, { step: () => over }) })).trajectory)).toEqual([["at 0", "home"]]);
  const fail = () => {
    throw new Error("broken");
  };
  expect(keys((await play({ env: countingEnv(9, { step: fail }) })).trajectory)).toEqual([["at 0", undefined]]);
});

test("the reward sees the whole conversation and all reply tokens", async () => {
  const inputs: unknown[] = [];
  await play({
    env: countingEnv(2),
    score: async (input) => {
      inputs.push(input);
      return scored;
    },
  });
  expect(inputs).toMatchObject([{ reply: "ok", numReplyTokens: 6, isTruncated: false }]);
  expect((inputs[0] as { messages: { content: string }[] }).messages.map(({ content }) => content)).toEqual([
    ...["Count.", "turn 0?", "ok", "turn 1?", "ok"],
  ]);
});

test("without a reward function the environment's rewards are all", async () => {
  const { trajectory } = await play({ env: countingEnv(3) });
  expect(trajectory.reward).toEqual({ total: 3, score: 0, parts: {} });
});

test.each([
  ["turns", { env: countingEnv(9), limits: { maxTurns: 2 } }, 2],
  // The prompts have 42, 72 and 102 tokens.
  ["context", { env: countingEnv(9), limits: { contextLength: 100 } }, 2],
  ["environment", { env: countingEnv(9, { step: () => ({ kind: "truncated", reward: 1, metrics: {} }) as const }) }, 1],
] as const)("an episode is truncated by %s, and scored", async (limit, setting, numTurns) => {
  const { trajectory, env } = await play({ ...setting, score: async () => scored });
  expect(trajectory.end).toEqual({ kind: "truncated", limit });
  expect(trajectory.turns).toHaveLength(numTurns);
  expect(trajectory.reward.total).toBe(numTurns + 0.5);
  expect(env.numEnds()).toBe(1);
});

test("an episode is truncated by the wall clock before the turn that comes too late", async () => {
  let timeMs = 0;
  const later = <Result>(ms: number, then: () => Result) => {
    timeMs += ms;
    return then();
  };
  const inner = countingEnv(9);
  const env = { ...inner, step: (...step: Parameters<TextEnv["step"]>) => later(600, () => inner.step(...step)) };
  const { trajectory } = await play({ env, limits: { episodeMs: 1000 }, clock: () => timeMs });
  expect(trajectory.end).toEqual({ kind: "truncated", limit: "wall-clock" });
  expect(trajectory.turns).toHaveLength(2);
});

test("a reply cut by its length is told to the environment, and the episode goes on", async () => {
  const { trajectory } = await play({ env: countingEnv(2), sampling: { maxTokens: 1 } });
  expect(trajectory).toMatchObject({ end: { kind: "completed" }, metrics: { cut: 1 } });
  expect(trajectory.turns.map(({ replyText, finish }) => [replyText, finish])).toEqual([
    ["o", "length"],
    ["o", "length"],
  ]);
});

test("times are those of engine, environment and reward, without being held back", async () => {
  let timeMs = 100;
  const later = <Result>(ms: number, then: () => Result) => {
    timeMs += ms;
    return then();
  };
  const gate = new Gate();
  gate.close();
  const inner = countingEnv(1);
  const env = { ...inner, step: (...step: Parameters<TextEnv["step"]>) => later(30, () => inner.step(...step)) };
  const playing = play({
    env,
    gate,
    clock: () => timeMs,
    engine: { reply: () => later(7, () => ({ tokenIds: tokenizer.encode("ok") })) },
    score: async () => later(11, () => scored),
    limits: { episodeMs: 1000 },
  });
  await new Promise((resolve) => setTimeout(resolve, 5));
  timeMs += 5000;
  gate.open();
  const { trajectory } = await playing;
  expect(trajectory.end).toEqual({ kind: "completed" });
  expect(trajectory.timings).toEqual({
    ...{ startedMs: 100, queuedMs: 7, generateMs: 7, envMs: 30, rewardMs: 11, totalMs: 5048 },
  });
  expect(trajectory.turns[0]).toMatchObject({ startedMs: 0, generateMs: 7, envMs: 30 });
});

const boom = () => {
  throw new Error("boom");
};
const hang = () => new Promise<never>(() => {});
// Garbage is what the types forbid.
const give = (value: unknown) => () => value as never;
const circular: Record<string, unknown> = { reward: 1n };
circular.self = circular;

test.each<[string, Partial<TextEnv>, RegExp]>([
  ["start throws", { start: boom }, /^Env "test" start failed: boom$/],
  ["start hangs", { start: hang }, /^Env "test" start did not answer within 20 ms\.$/],
  ["start gives nothing", { start: give(undefined) }, /^Env "test" start failed: it returned undefined\./],
  [
    "start gives no messages",
    { start: give({ instructions: [], observation: {} }) },
    /it returned \{ instructions: \[\]/,
  ],
  [
    "start gives messages of nothing",
    { start: give({ instructions: [null], observation: { messages: [] } }) },
    /instructions: \[ null \]/,
  ],
  [
    "start gives a role the template refuses",
    { start: give({ instructions: [], observation: { messages: [{ role: "wizard", content: "" }] } }) },
    /^Env "test" messages failed: .*Unknown role wizard/,
  ],
  ["step throws", { step: boom }, /^Env "test" step failed: boom$/],
  [
    "step throws no error",
    { step: () => Promise.reject(Object.create(null)) },
    /step failed: \[Object: null prototype\]/,
  ],
  ["step hangs", { step: hang }, /^Env "test" step did not answer within 20 ms/],
  ["step gives something circular", { step: give(circular) }, /it returned <ref \*1> \{ reward: 1n/],
  ["step gives no number", { step: give({ kind: "terminated", reward: Number.NaN, metrics: {} }) }, /reward: NaN/],
  [
    "step gives a metric that is none",
    { step: give({ kind: "terminated", reward: 0, metrics: { a: "b" } }) },
    /metrics: \{ a: 'b' \}/,
  ],
  ["step continues with nothing", { step: give({ kind: "continues", reward: 0, metrics: {} }) }, /kind: 'continues'/],
  ["end throws", { end: boom }, /^Env "test" end failed: boom$/],
  ["end hangs", { end: hang }, /^Env "test" end did not answer within 20 ms/],
])("an environment whose %s fails its trajectory, and is ended once", async (_, changes, message) => {
  const { trajectory, env } = await play({ env: countingEnv(1, changes), limits: { envMs: 20 } });
  expect(trajectory.end).toMatchObject({ kind: "failed", stage: "environment" });
  expect(errorOf(trajectory)).toMatch(message);
  expect(trajectory.reward.total).toBe(0);
  expect(env.numEnds()).toBe(1);
});

test.each<[string, EpisodeParts["makeEnv"], RegExp]>([
  ["throws", boom, /^Env "test" creation failed: boom$/],
  ["hangs", hang, /^Env "test" creation did not answer within 20 ms/],
  [
    "gives nothing",
    give(undefined),
    /^Env "test" creation failed: it returned undefined\. It must return an environment/,
  ],
])("a creation that %s fails its trajectory", async (_, makeEnv, message) => {
  const { trajectory } = await play({ makeEnv, limits: { envMs: 20 } });
  expect(trajectory.end).toMatchObject({ kind: "failed", stage: "environment" });
  expect(errorOf(trajectory)).toMatch(message);
});

test("an environment that is made when nobody waits any more is ended at once", async () => {
  const env = countingEnv(1);
  let deliver = (_: TextEnv) => {};
  const makeEnv = () =>
    new Promise<TextEnv>((resolve) => {
      deliver = resolve;
    });
  const { trajectory } = await play({ makeEnv, limits: { envMs: 5 } });
  expect(errorOf(trajectory)).toMatch(/did not answer within 5 ms/);
  deliver(env);
  await new Promise((resolve) => setTimeout(resolve));
  expect(env.numEnds()).toBe(1);
});

test.each<[string, NonNullable<EpisodeParts["score"]>, RegExp]>([
  ["throws", boom, /^Reward of "test" failed: boom$/],
  ["hangs", hang, /^Reward of "test" did not answer within 20 ms/],
  ["gives nothing", give(undefined), /^Reward of "test" failed: it returned undefined/],
  ["gives no number", give({ ...scored, score: Number.NaN }), /it returned \{ kind: 'scored', score: NaN/],
  [
    "says that it failed",
    async () => ({ kind: "failed", error: new RerollError("JUDGE_REFUSED", "no judge"), elapsedMs: 0 }),
    /^no judge$/,
  ],
])("a reward that %s fails its trajectory with the turns kept", async (_, score, message) => {
  const { trajectory, env } = await play({ env: countingEnv(2), score, limits: { rewardMs: 20 } });
  expect(trajectory.end).toMatchObject({ kind: "failed", stage: "reward" });
  expect(errorOf(trajectory)).toMatch(message);
  expect(trajectory).toMatchObject({ turns: [{}, {}], reward: { total: 0 } });
  expect(env.numEnds()).toBe(1);
});

test("an engine that fails in the middle of a reply fails the trajectory and keeps the tokens", async () => {
  const error = new RerollError("OUT_OF_MEMORY", "out of memory");
  const { trajectory, env } = await play({ engine: { reply: () => ({ tokenIds: [65], error }) } });
  expect(trajectory.end).toEqual({ kind: "failed", stage: "generation", error });
  expect(trajectory.turns).toMatchObject([{ finish: "failed", replyText: "A", reward: 0 }]);
  expect(env.numEnds()).toBe(1);
});

test("an engine that gives garbage fails the trajectory", async () => {
  const { trajectory, env } = await play({ generate: give(Promise.resolve({ finish: { kind: "stop" } })) });
  expect(trajectory.end).toMatchObject({ kind: "failed", stage: "generation" });
  expect(env.numEnds()).toBe(1);
});

test.each(["creation", "start", "generating", "held", "step", "score"])(
  "an abort during %s ends the trajectory as aborted, and the environment once",
  async (stage) => {
    const controller = new AbortController();
    const gate = new Gate();
    if (stage === "held") gate.close();
    const at = <Result>(here: string, work: () => Result) => {
      if (stage !== here) return work();
      setTimeout(() => controller.abort());
      return hang();
    };
    const inner = countingEnv(1);
    const env = {
      ...inner,
      start: (signal: AbortSignal) => at("start", () => inner.start(signal)),
      step: (...step: Parameters<TextEnv["step"]>) => at("step", () => inner.step(...step)),
    };
    if (stage === "held") setTimeout(() => controller.abort());
    const { trajectory, engine } = await play({
      makeEnv: () => at("creation", () => env),
      ...(stage === "generating" && { engine: { beforeStep: async () => controller.abort() } }),
      score: () => at("score", async () => scored),
      signal: controller.signal,
      gate,
    });
    expect(trajectory.end).toEqual({ kind: "aborted" });
    expect(inner.numEnds()).toBe(stage === "creation" ? 0 : 1);
    expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 });
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  },
);

test("a time limit beyond what timers can count is no limit, and not none at all", async () => {
  const slow = countingEnv(1, { end: () => new Promise((resolve) => setTimeout(resolve, 20)) });
  const { trajectory } = await play({ env: slow, limits: { envMs: Infinity, generateMs: 1e12 } });
  expect(trajectory.end).toEqual({ kind: "completed" });
});

test("the stages of a sample are told in order", async () => {
  const stages: string[] = [];
  await play({ env: countingEnv(1), score: async () => scored, onStage: (stage) => stages.push(stage) });
  expect(stages).toEqual(["environment", "environment", "generating", "environment", "scoring"]);
});

interface Setting extends Partial<Pick<EpisodeParts, "makeEnv" | "generate" | "clock" | "score">> {
  readonly env?: TextEnv;
  readonly engine?: ScriptedOptions;
  readonly limits?: Partial<EpisodeLimits>;
  readonly sampling?: Partial<EpisodeParts["sampling"]>;
  readonly gate?: Gate;
  readonly signal?: AbortSignal;
  readonly onStage?: (stage: string) => void;
}

async function play(setting: Setting) {
  const { engine: engineOptions, limits, sampling, gate = new Gate(), onStage, score } = setting;
  const env = (setting.env ?? countingEnv(1)) as ReturnType<typeof countingEnv>;
  const engine = createScriptedEngine({ reply: () => ({ tokenIds: tokenizer.encode("ok") }), ...engineOptions });
  const run = createEpisodeRunner({
    generate: setting.generate ?? engine.generate,
    makeEnv: setting.makeEnv ?? (() => env),
    format,
    ...(score !== undefined && { score }),
    sampling: { maxTokens: 32, ...sampling },
    limits: { ...defaultEpisodeLimits, contextLength: 2048, ...limits },
    clock: setting.clock ?? (() => 0),
  });
  const signal = setting.signal ?? new AbortController().signal;
  const trajectory = await run(task, { signal, gate, ...(onStage !== undefined && { onStage }) });
  return { trajectory, env, engine };
}

function errorOf({ end }: Trajectory): string {
  return end.kind === "failed" ? end.error.message : end.kind;
}
