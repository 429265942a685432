import { expect, test } from "vitest";
import { tensor } from "../torch/create.ts";
import type { Tensor } from "../torch/tensor.ts";
import { createSharedMemorySync } from "./shared-memory-sync.ts";

test("every engine gets the version, and the time and bytes of all of them are counted", async () => {
  const weights = new Map([
    ["a", tensor([1, 2, 3])],
    ["b", tensor([1, 2], { dtype: "float16" })],
  ]);
  const got: [number, readonly string[]][] = [];
  let now = 100;
  const engine = {
    updateWeights: async (version: number, given: ReadonlyMap<string, Tensor>) => {
      now += 20;
      got.push([version, [...given.keys()]]);
    },
  };
  const sync = createSharedMemorySync({
    withWeights: (use) => use(weights),
    engines: [engine, engine],
    clock: () => now,
  });
  // 3 x 4 + 2 x 2 bytes, twice.
  expect(await sync.publish(7)).toEqual({ "sync/ms": 40, "sync/bytes": 32 });
  expect(got).toEqual([
    [7, ["a", "b"]],
    [7, ["a", "b"]],
  ]);
});

test("an engine that does not take the weights fails the publication", async () => {
  const engine = { updateWeights: () => Promise.reject(new Error("closed")) };
  const sync = createSharedMemorySync({ withWeights: (use) => use(new Map()), engines: [engine], clock: () => 0 });
  await expect(sync.publish(1)).rejects.toThrow("closed");
});
