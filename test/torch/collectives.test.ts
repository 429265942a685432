/** Collectives between processes, against numbers worked out by hand. Rank r starts with [r + 1, 10 (r + 1)]. */
import { describe, expect, test } from "vitest";
import { launchRanks, type RankOutcome } from "./ranks/launch-ranks.ts";

// What reduceScatter scatters: rank r has (r + 1) (p + 1) in part p.
const EXPECTED = [
  {
    worldSize: 2,
    reduced: { sum: [3, 30], mean: [1.5, 15], max: [2, 20], min: [1, 10], product: [2, 200] },
    scattered: { sum: [3, 6], mean: [1.5, 3], max: [2, 4], min: [1, 2], product: [2, 8] },
    gathered: [1, 10, 2, 20],
    fromPrevious: [
      [2, 20],
      [1, 10],
    ],
    bfloat16: [2, 2 / 256],
  },
  {
    worldSize: 3,
    reduced: { sum: [6, 60], mean: [2, 20], max: [3, 30], min: [1, 10], product: [6, 6000] },
    scattered: { sum: [6, 12, 18], mean: [2, 4, 6], max: [3, 6, 9], min: [1, 2, 3], product: [6, 48, 162] },
    gathered: [1, 10, 2, 20, 3, 30],
    fromPrevious: [
      [3, 30],
      [1, 10],
      [2, 20],
    ],
    bfloat16: [3, 3 / 256],
  },
] as const;

describe.each(EXPECTED)("$worldSize ranks", ({ worldSize, reduced, scattered, gathered, fromPrevious, bfloat16 }) => {
  let outcomes: Promise<RankOutcome[]> | null = null;
  const run = async () => {
    outcomes ??= launchRanks("collectives.ts", worldSize);
    return outcomes;
  };

  test.each(["float32", "int64"])("all collectives give every rank its numbers in %s", async (dtype) => {
    const results = await run();
    for (const [rank, outcome] of results.entries()) {
      expect(outcome).toMatchObject({ exitCode: 0, errors: "" });
      const values = outcome.reports[dtype === "float32" ? 0 : 1] as Record<string, number[]>;
      const reductions = (["sum", "mean", "max", "min", "product"] as const).filter(
        (reduction) => dtype === "float32" || reduction !== "mean",
      );
      for (const reduction of reductions) {
        expect(values[`allReduce ${reduction}`]).toEqual(reduced[reduction]);
        expect(values[`allReduceSync ${reduction}`]).toEqual(reduced[reduction]);
        expect(values[`reduceScatter ${reduction}`]).toEqual([scattered[reduction][rank]]);
      }
      const previous = fromPrevious[rank] ?? [];
      expect(values).toMatchObject({
        reduceScatterSync: [scattered.sum[rank]],
        allGather: gathered,
        allGatherSync: gathered,
        allGatherInto: gathered,
        allGatherIntoSync: gathered,
        broadcast: [2, 20],
        broadcastSync: [worldSize, 10 * worldSize],
        "send and receive": previous,
        "two messages": [...previous, ...previous.map((value) => 2 * value)],
      });
    }
  });

  test("bfloat16 is added in float32, and bool is moved as it is", async () => {
    for (const { reports } of await run()) expect(reports[2]).toEqual({ bfloat16, bool: [1, 1] });
  });

  test("collectives in flight together keep their calling order", async () => {
    const sumOfRanks = (worldSize * (worldSize - 1)) / 2;
    const expected = Array.from({ length: 24 }, (_, i) => [i * worldSize, sumOfRanks]);
    for (const { reports } of await run()) expect(reports[3]).toEqual(expected);
  });
});

test("waiting collectives hold up neither the event loop nor file access", async () => {
  const [first, second] = await launchRanks("free-event-loop.ts", 2);
  const sums = [0, 2, 4, 6, 8, 10, 12, 14];
  expect(first).toMatchObject({ exitCode: 0, reports: [true, sums] });
  expect(second).toMatchObject({ exitCode: 0, reports: [sums] });
});

test("when a rank is killed the others get an error that says so, and live on", async () => {
  const outcomes = await launchRanks("killed-peer.ts", 3);
  expect(outcomes[2]).toMatchObject({ exitSignal: "SIGKILL" });
  for (const [rank, outcome] of outcomes.slice(0, 2).entries()) {
    expect(outcome).toMatchObject({ exitCode: 0 });
    const [lost, next, alive] = outcome.reports;
    expect(lost).toMatchObject({ code: "PEER_LOST" });
    expect(lost).toMatchObject({
      message: expect.stringContaining(
        `rank ${rank} of 3 in gloo group "default" lost a peer in allReduce(sum) of float32[3]`,
      ),
    });
    expect(next).toMatchObject({ code: "GROUP_BROKEN" });
    expect(alive).toBe(42);
  }
});

test("a peer that does not come runs into the timeout", async () => {
  const [first, second] = await launchRanks("hung-peer.ts", 2);
  expect(first?.reports[0]).toMatchObject({
    code: "COLLECTIVE_TIMEOUT",
    message: expect.stringContaining("waited longer than 1000 ms for its peers in allReduce(sum) of float32[2]"),
  });
  expect(second?.reports[0]).toMatchObject({ code: "PEER_LOST" });
  expect(first?.exitCode).toBe(0);
  expect(second?.exitCode).toBe(0);
});
