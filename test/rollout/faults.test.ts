/** Faults at 10 % each in environments (in threads) and rewards: what is good comes out, the rest is reported, nothing leaks. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { runInThreads } from "../../src/envs/run-in-threads.ts";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { deriveSeed } from "../../src/random/random.ts";
import type { Reward } from "../../src/rewards/reward.ts";
import { createScorer } from "../../src/rewards/score-all.ts";
import { createEpisodeRunner, defaultEpisodeLimits, type RunEpisode } from "../../src/rollout/episode.ts";
import { RolloutScheduler } from "../../src/rollout/rollout-scheduler.ts";
import { createScriptedEngine } from "../../src/testing/scripted-generate.ts";
import { format, tokenizer } from "./episode-parts.ts";
import { drawFault } from "./faulty-worlds.ts";
import { numbered } from "./scripted-episodes.ts";

const clock = () => performance.now();
const lost = new RerollError("ENV_THREAD_LOST", "engine lost");
/** Of each fault of environments, and of each fault of rewards. */
const share = 0.1;

test("with faults of every kind the right number of good samples comes out, and nothing is left", async () => {
  const resourcesBefore = liveResources();
  const envs = runInThreads({
    module: new URL("faulty-worlds.ts", import.meta.url).href,
    exportName: "faultyWorlds",
    options: { share },
    numThreads: 4,
    timeoutMs: 400,
  });
  const scorer = createScorer({ reward: faultyReward(), limits: { instant: { timeoutMs: 150 } }, clock });
  const engine = createScriptedEngine({
    maxRunning: 256,
    reply: (_, index) => (index % 20 === 7 ? { tokenIds: [65], error: lost } : { tokenIds: tokenizer.encode("ok") }),
  });
  const signals: AbortSignal[] = [];
  const runEpisode = createEpisodeRunner({
    generate: engine.generate,
    makeEnv: envs.makeEnv,
    format,
    score: scorer.score,
    sampling: { maxTokens: 16 },
    limits: { ...defaultEpisodeLimits, contextLength: 2048, envMs: 20_000, rewardMs: 2000 },
    clock,
  });
  const watched: RunEpisode = (task, control) => {
    signals.push(control.signal);
    return runEpisode(task, control);
  };
  const scheduler = new RolloutScheduler({
    runEpisode: watched,
    sources: [{ share: 1, source: numbered("p") }],
    options: { groupSize: 4, maxInFlight: 4, maxFailures: 40 },
    seed: 3,
    clock,
  });
  const stop = new AbortController();
  const rollouts = [await scheduler.take(4, stop.signal), await scheduler.take(4, stop.signal)];

  const groups = rollouts.flatMap((rollout) => rollout.groups);
  expect(groups).toHaveLength(8);
  const good = groups.flatMap(({ trajectories }) => trajectories);
  expect(good).toHaveLength(32);
  for (const { end, reward, turns } of good) {
    expect([end.kind, reward.total, turns.length]).toEqual(["completed", 2.5, 2]);
  }
  const failures = rollouts.flatMap(({ report }) => report.failed);
  const stages = new Set(failures.map(({ end }) => end.kind === "failed" && end.stage));
  expect([...stages].sort()).toEqual(["environment", "generation", "reward"]);
  const messages = failures.map(({ end }) => (end.kind === "failed" ? end.error.message : ""));
  for (const pattern of [
    ...[/thrown in a step/, /said nothing for 400 ms/, /it returned \{ kind: 'won'/],
    ...[/process.exit\(3\) was called/, /thrown in a reward/, /longer than 150 ms/, /returned no score/, /engine lost/],
  ]) {
    expect(
      messages.some((message) => pattern.test(message)),
      String(pattern),
    ).toBe(true);
  }
  // Every sample that was started is either good or reported, and no good one had a fault of its own.
  expect(signals).toHaveLength(good.length + failures.length);
  expect(good.every(({ seed }) => drawFault(deriveSeed(seed, "env"), share) === "none")).toBe(true);

  await scheduler.close();
  await scorer.close();
  await envs.close();
  await engine.close();
  expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 });
  expect([stop.signal, ...signals].flatMap((signal) => getEventListeners(signal, "abort"))).toEqual([]);
  await expect.poll(liveResources, { timeout: 5000 }).toEqual(resourcesBefore);
}, 60_000);

/** Throws, hangs, gives garbage, or answers too late: one in ten each. */
function faultyReward(): Reward {
  let index = 0;
  return {
    name: "faulty",
    cost: "instant",
    score: (_, signal) => {
      switch (index++ % 10) {
        case 1:
          throw new Error("thrown in a reward");
        case 3:
          return new Promise(() => {});
        case 5:
          return { value: Number.NaN };
        case 7:
          return new Promise((resolve) => signal.addEventListener("abort", () => resolve({ value: 1 })));
      }
      return { value: 0.5 };
    },
  };
}

/** What keeps a process alive, without the test runner's own pipes: threads, ports and timers. */
function liveResources(): Record<string, number> {
  const kinds = ["Worker", "MessagePort", "Timeout", "Immediate"];
  const live = process.getActiveResourcesInfo();
  return Object.fromEntries(kinds.map((kind) => [kind, live.filter((one) => one === kind).length]));
}
