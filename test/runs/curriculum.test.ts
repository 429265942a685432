/** A curriculum learns from what its prompts came to, and a resumed run knows what it had learned. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inFolder, type LakeRun, trainLake } from "./lake-run.ts";

interface SavedSource {
  readonly records: readonly (readonly [id: string, rate: number | null])[];
}

/** What the curriculum of the run knows in the checkpoint of a step. */
function recordsOf({ state }: LakeRun, step: number): SavedSource["records"] {
  const { prompts } = state(step).rollout as unknown as {
    readonly prompts: { readonly sources: readonly SavedSource[] };
  };
  return prompts.sources[0]!.records;
}

test("what came of every prompt is known, skips what is too hard, and is there after a resume", async () => {
  await inFolder(async (root) => {
    const changes = {
      data: {
        type: "curriculum",
        source: { type: "env", env: "lake", part: "train", numPrompts: 8, shuffle: false },
        ...{ low: 0.1, high: 0.9, explore: 0.01 },
      },
      // Groups whose rewards are equal are the ones a curriculum is there for: it hears of them too.
      rollout: { filter: { dropEqualRewards: true, maxFactor: 100 } },
      loop: { type: "sync", steps: 6 },
      checkpoint: { every: 3, keep: 20 },
    } as const;
    const whole = await trainLake(root, changes);
    const records = recordsOf(whole, 6);
    expect(records).toHaveLength(8);
    expect(records.every(([, rate]) => rate !== null && rate >= 0 && rate <= 1)).toBe(true);
    const { folder } = whole;
    rmSync(join(folder, "checkpoints/step-000006"), { recursive: true });
    const resumed = await trainLake(root, changes, folder);
    expect(recordsOf(resumed, 6)).toEqual(records);
    expect(resumed.train.get(6)!["reward/mean"]).toBe(whole.train.get(6)!["reward/mean"]);
  });
});
