/** The run file that promises are tried on: a tiny model on FrozenLake. A promise says what it changes. */
import { defineRun, type RunFile } from "../../src/run/define-run.ts";

export function lakeFile(changes: Partial<Omit<RunFile, "model">>): RunFile {
  const { rollout, training, ...others } = changes;
  return defineRun({
    device: "cpu",
    model: { preset: "nano" },
    envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null } },
    rollout: { groupsPerStep: 4, groupSize: 4, contextLength: 64, sampling: { maxTokens: 2 }, ...rollout },
    training: { optimizer: { lr: 1e-3 }, ...training },
    engine: { threads: 1 },
    ...others,
  });
}
