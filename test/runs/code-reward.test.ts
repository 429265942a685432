/** Programs of a model in a run that scores code: only the right one earns something, whatever the others do to what runs them. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { javascriptAttacks, pythonAttacks } from "../rewards/code-attacks.ts";
import { skipNote, skipReason } from "../sandbox/python-availability.ts";
import { inFolder } from "./lake-run.ts";
import { writeOneWordModel } from "./one-word-model.ts";
import { trainSmall } from "./small-run.ts";

const truth = { function: "f", cases: [7, 8].map((x) => ({ arguments: [x], expected: x * x })) };

/** One step in which the model says all of the programs, each several times and at once with the others. */
async function expectRightToEarn(right: string, attacks: readonly string[], language: string): Promise<void> {
  const programs = [right, ...attacks];
  const { metrics, trajectories } = await inFolder((root) =>
    trainSmall({
      model: { path: writeOneWordModel(join(root, "model"), programs) },
      data: { type: "rows", rows: [{ prompt: "so", answer: JSON.stringify(truth) }] },
      rewards: {
        default: { type: "code", languages: [language], testTimeoutMs: 1000, totalTimeoutMs: 2000, numWorkers: 2 },
      },
      rollout: { groupsPerStep: 1, groupSize: 48, contextLength: 16, sampling: { maxTokens: 1 } },
      training: { optimizer: { lr: 1e-3 } },
      loop: { type: "sync", steps: 1 },
    }),
  );
  expect(metrics[0]!["rollout/failed_share"]).toBe(0);
  const said = trajectories.map(({ turns }) => turns[0]!.replyText);
  for (const program of programs) expect(said).toContain(program);
  for (const { turns, reward } of trajectories) {
    const { replyText } = turns[0]!;
    expect(reward.total, replyText).toBe(replyText === right ? 1 : 0);
  }
}

test.skipIf(skipReason !== null)(
  `python that forges, exits, kills and hangs earns nothing, and costs the right program nothing${skipNote}`,
  () => {
    const names = ["kills everything", "os._exit at load", "an int equal to everything", "everything is caught"];
    return expectRightToEarn(
      "def f(x): return x * x",
      names.map((name) => pythonAttacks[name]!),
      "python",
    );
  },
);

test("javascript that forges, exits and hangs earns nothing, and costs the right program nothing", () => {
  const names = ["process.exit in the call", "JSON answers passed", "a memory bomb", "an endless loop that catches"];
  return expectRightToEarn(
    "const f = (x) => x * x;",
    names.map((name) => javascriptAttacks[name]!),
    "javascript",
  );
});
