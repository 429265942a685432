/**
 * A program for clean-stop.test.ts: rolls out for ever, with environments in threads, a reward that runs Python in a sandbox, and a
 * writer of trajectories, until SIGINT ends it in an orderly way. Says "started" when the signal is listened to, and
 * "rolling" after the first rollout.
 *
 * stop-child.ts <folder> <"sandbox" or "no-sandbox">
 */
import { buildEnv, catalogModule } from "../../src/envs/catalog.ts";
import { runInThreads } from "../../src/envs/run-in-threads.ts";
import type { Reward } from "../../src/rewards/reward.ts";
import { createScorer } from "../../src/rewards/score-all.ts";
import { createEpisodeRunner, defaultEpisodeLimits } from "../../src/rollout/episode.ts";
import { RolloutScheduler } from "../../src/rollout/rollout-scheduler.ts";
import { createPythonSandbox } from "../../src/sandbox/python-sandbox.ts";
import { createScriptedEngine } from "../../src/testing/scripted-generate.ts";
import { RunFolder } from "../../src/tracking/run-folder.ts";
import { format } from "./episode-parts.ts";

const [path = "", sandboxChoice] = process.argv.slice(2);
const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
process.stdout.write("started\n");

const clock = () => performance.now();
const world = { type: "frozen-lake" };
const envs = runInThreads({ module: catalogModule, exportName: "buildEnv", options: world, numThreads: 2 });
const folder = await RunFolder.create(path, plan(), {}, { flushMs: 20 });
const scorer = createScorer({ reward: await pythonReward(), clock });
const engine = createScriptedEngine({ reply: ({ sampling }) => ({ tokenIds: [60 + ((sampling.seed ?? 0) % 60)] }) });
const makePrompt = buildEnv(world).makePrompt!;
let numPrompts = 0;
const scheduler = new RolloutScheduler({
  runEpisode: createEpisodeRunner({
    generate: engine.generate,
    makeEnv: envs.makeEnv,
    format,
    score: scorer.score,
    sampling: { maxTokens: 4 },
    limits: { ...defaultEpisodeLimits, maxTurns: 3, contextLength: 4096 },
    clock,
  }),
  sources: [
    {
      share: 1,
      source: {
        next: async () => [makePrompt(numPrompts++)],
        position: () => numPrompts,
        restore: async () => {},
      },
    },
  ],
  options: { groupSize: 2, maxInFlight: 16 },
  seed: 1,
  clock,
});

try {
  for (let step = 1; !stop.signal.aborted; step++) {
    const rollout = await scheduler.take(4, stop.signal);
    if (step === 1) process.stdout.write("rolling\n");
    await folder.writeTrajectories(step, rollout);
    folder.appendMetrics({ step, timeMs: clock(), kind: "train", metrics: rollout.metrics });
  }
} catch (error) {
  if (!stop.signal.aborted) throw error;
} finally {
  await scheduler.close();
  await Promise.all([scorer.close(), envs.close(), engine.close()]);
  await folder.setInfo({ status: "interrupted" });
  await folder.close();
}

function plan() {
  return { name: "stop", numSteps: 1, recipe: "none", model: "none", tags: [], seed: 1, version: "0" };
}

async function pythonReward(): Promise<Reward> {
  if (sandboxChoice !== "sandbox") return { name: "none", cost: "instant", score: () => ({ value: 0 }) };
  const sandbox = await createPythonSandbox({ numWorkers: 1 });
  return {
    name: "python",
    cost: "sandbox",
    score: async (_, signal) => {
      const { kind } = await sandbox.run({ code: "import time\ntime.sleep(0.01)" }, signal);
      return { value: Number(kind === "ok") };
    },
    close: () => sandbox.close(),
  };
}
