/** Real training runs with their folders: as small as they can be and still have groups, turns and replays. */
import { resolve } from "node:path";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { runTraining } from "../../src/run/run-training.ts";

/** Trains on FrozenLake in `root/name`, with these parts of a run file in place of the usual ones. */
export async function trainOnLake(
  root: string,
  name: string,
  changes: Readonly<Record<string, unknown>>,
): Promise<string> {
  const resolved = resolveRun({
    name,
    device: "cpu",
    model: { preset: "nano" },
    envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", answerTags: null, maxTurns: 3 } },
    rollout: { groupsPerStep: 4, groupSize: 4, contextLength: 64, sampling: { maxTokens: 2 } },
    training: { optimizer: { lr: 1e-3 } },
    loop: { type: "sync", steps: 2 },
    tracking: { folder: root, tensorboard: false },
    ...changes,
  });
  const plan = { lines: [], updatesPerStep: 1, memory: [], totalBytes: 0, decoding: null };
  await runTraining(
    { ...resolved, plan },
    {
      signal: new AbortController().signal,
      version: "0.0.0",
      environment: {},
      runFile: "run.ts",
      command: "reroll",
      console: null,
    },
  );
  return resolve(root, name);
}
