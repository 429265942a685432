import { expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { launchRanks } from "../torch/ranks/launch-ranks.ts";

test("a trainer's weights reach the engines of two other processes, while these draw tokens", async () => {
  const [trainer, ...engines] = await launchRanks("weight-broadcast.ts", 3);
  for (const outcome of [trainer!, ...engines]) expect(outcome).toMatchObject({ exitCode: 0, errors: "" });

  const model = tinyModel(tinyConfig("qwen3"));
  const numWeights = model.parameters().reduce((sum, { numel }) => sum + numel, 0);
  model.dispose();
  const metrics = { "sync/bytes": 2 * 4 * numWeights, "sync/ms": expect.toSatisfy((ms: number) => ms > 0) };
  expect(trainer!.reports).toEqual([metrics, metrics, 0, "SYNC_FAILED"]);
  for (const { reports } of engines) {
    // Two versions with their gaps, a reply that spans both, the refused third version, and the end.
    expect(reports).toEqual([1, 0, 2, expect.closeTo(0, 6), [1, 2], "WEIGHTS_MISMATCH", 0, 2, null]);
  }
});
