import { expect, test } from "vitest";
import { tensor } from "../torch/create.ts";
import { createLentWeightsSync } from "./lent-weights-sync.ts";

/** Engines that note what they are told, and a trainer that counts how often its parameters were asked for. */
function lender(numEngines: number) {
  const parameters = new Map([["a", tensor([1, 2, 3])]]);
  const told: string[] = [];
  const seen = { numAsked: 0 };
  const engines = Array.from({ length: numEngines }, (_, i) => {
    let isBorrowing = false;
    return {
      isBorrowing: () => isBorrowing,
      lose: () => {
        isBorrowing = false;
      },
      shareWeights: async (version: number, given: ReadonlyMap<string, unknown>) => {
        told.push(`${i} shares ${[...given.keys()]} as ${version}`);
        isBorrowing = true;
      },
      renewWeights: async (version: number) => void told.push(`${i} renews as ${version}`),
    };
  });
  const sync = createLentWeightsSync({
    withParameters: (use) => {
      seen.numAsked++;
      return use(parameters);
    },
    engines,
    clock: () => 0,
  });
  return { sync, engines, told, seen };
}

test("parameters are lent once, and then only the version is told", async () => {
  const { sync, told, seen } = lender(2);
  expect(await sync.publish(0)).toEqual({ "sync/ms": 0, "sync/bytes": 0 });
  await sync.publish(1);
  await sync.publish(2);
  expect(told).toEqual([
    ...["0 shares a as 0", "1 shares a as 0"],
    ...["0 renews as 1", "1 renews as 1"],
    ...["0 renews as 2", "1 renews as 2"],
  ]);
  expect(seen.numAsked).toBe(1);
});

test("an engine that was opened again is lent them again, and the others are not", async () => {
  const { sync, engines, told } = lender(2);
  await sync.publish(0);
  engines[1]!.lose();
  await sync.publish(1);
  expect(told.slice(2)).toEqual(["0 renews as 1", "1 shares a as 1"]);
});

test("an engine that is lost while another one is lent the parameters has been told before", async () => {
  const { sync, engines, told } = lender(2);
  await sync.publish(0);
  engines[1]!.lose();
  const { shareWeights } = engines[1]!;
  engines[1]!.shareWeights = async (version, parameters) => {
    engines[0]!.lose();
    await shareWeights(version, parameters);
  };
  await sync.publish(1);
  await sync.publish(2);
  expect(told.slice(2)).toEqual(["0 renews as 1", "1 shares a as 1", "1 renews as 2", "0 shares a as 2"]);
});
