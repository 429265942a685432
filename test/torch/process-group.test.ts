/** Groups whose two ranks live in this process: errors, rendezvous, and who holds the memory. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { native } from "../../src/torch/binding.ts";
import { ones, tensor, zeros } from "../../src/torch/create.ts";
import type { ProcessGroup } from "../../src/torch/distributed/process-group.ts";
import { availableBackends, joinGroup, openStore, type Store } from "../../src/torch/distributed/rendezvous.ts";
import { tensorScope } from "../../src/torch/scope.ts";

let folder: string;
let numStores = 0;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-group-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function openLocalStore(): Promise<Store> {
  return openStore({ type: "file", path: join(folder, `store-${numStores++}`), worldSize: 2 });
}

async function joinPair(timeoutMs = 20_000): Promise<[ProcessGroup, ProcessGroup]> {
  const stores = await openLocalStore();
  const join = async (rank: number) =>
    joinGroup({ store: stores, backend: "gloo", rank, worldSize: 2, timeoutMs, listenAt: { host: "127.0.0.1" } });
  return Promise.all([join(0), join(1)]);
}

test("gloo is always there", () => {
  expect(availableBackends()).toContain("gloo");
});

test("two groups of one TCP store each connect their own ranks", async () => {
  const server = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true, timeoutMs: 10_000 });
  const client = await openStore({
    type: "tcp",
    host: "127.0.0.1",
    port: server.port ?? 0,
    isServer: false,
    timeoutMs: 10_000,
  });
  const join = async (name: string, store: Store, rank: number) =>
    joinGroup({ store, backend: "gloo", name, rank, worldSize: 2, timeoutMs: 10_000 });
  const [a0, a1, b0, b1] = await Promise.all([
    join("a", server, 0),
    join("a", client, 1),
    join("b", server, 1),
    join("b", client, 0),
  ]);
  const values = [tensor([1]), tensor([2]), tensor([30]), tensor([40])] as const;
  await Promise.all([
    a0.allReduce(values[0]),
    a1.allReduce(values[1]),
    b0.broadcast(values[2]),
    b1.broadcast(values[3]),
  ]);
  expect(values.map((value) => value.item())).toEqual([3, 3, 40, 40]);
});

test("joining names the ranks that did not come", async () => {
  const store = await openLocalStore();
  await expect(
    joinGroup({ store, backend: "gloo", rank: 1, worldSize: 3, name: "trainers", timeoutMs: 300 }),
  ).rejects.toMatchObject({
    code: "RENDEZVOUS_TIMEOUT",
    message: expect.stringMatching(/rank 1 of 3 in gloo group "trainers" waited 300 ms, .* did not arrive: 0, 2\./),
  });
});

test("a rank cannot be taken twice", async () => {
  const store = await openLocalStore();
  const join = async () => joinGroup({ store, backend: "gloo", rank: 0, worldSize: 2, timeoutMs: 300 });
  const [first, second] = await Promise.allSettled([join(), join()]);
  const codes = [first, second].map((result) => (result.status === "rejected" ? result.reason.code : "joined"));
  expect(codes.sort()).toEqual(["DUPLICATE_RANK", "RENDEZVOUS_TIMEOUT"]);
});

test("a store that nobody serves is reported with its address", async () => {
  await expect(
    openStore({ type: "tcp", host: "127.0.0.1", port: 1, isServer: false, timeoutMs: 300 }),
  ).rejects.toMatchObject({ code: "RENDEZVOUS_FAILED", message: expect.stringContaining("127.0.0.1:1") });
});

test("different shapes reject on every rank, name both calls, and leave the group whole", async () => {
  const [first, second] = await joinPair();
  const results = await Promise.allSettled([first.allReduce(zeros([3])), second.allReduce(zeros([2, 2]))]);
  for (const result of results) {
    expect(result).toMatchObject({
      status: "rejected",
      reason: {
        code: "COLLECTIVE_MISMATCH",
        message: expect.stringContaining(
          "rank 0 calls allReduce(sum) of float32[3], rank 1 calls allReduce(sum) of float32[2, 2]",
        ),
      },
    });
  }
  const values = [tensor([1]), tensor([2])] as const;
  await Promise.all([first.allReduce(values[0]), second.allReduce(values[1])]);
  expect(values.map((value) => value.item())).toEqual([3, 3]);
});

test.each([
  [
    "types",
    async (group: ProcessGroup) => group.broadcast(zeros([2], { dtype: group.rank === 0 ? "int32" : "int64" })),
  ],
  ["reductions", async (group: ProcessGroup) => group.allReduce(zeros([2]), group.rank === 0 ? "sum" : "max")],
  ["roots", async (group: ProcessGroup) => group.broadcast(zeros([2]), group.rank)],
  ["collectives", async (group: ProcessGroup) => (group.rank === 0 ? group.barrier() : group.allReduce(zeros([2])))],
])("different %s are a mismatch", async (_, call) => {
  const pair = await joinPair();
  const results = await Promise.allSettled(pair.map(call));
  for (const result of results) expect(result).toMatchObject({ reason: { code: "COLLECTIVE_MISMATCH" } });
});

test("a message that the receiver does not expect runs into the timeout on both sides", async () => {
  const [first, second] = await joinPair(500);
  const results = await Promise.allSettled([first.send(zeros([8]), 1), second.receive(zeros([2]), 0)]);
  for (const result of results) expect(result).toMatchObject({ status: "rejected" });
  expect(results[1]).toMatchObject({
    reason: { message: expect.stringContaining("receive from rank 0 of float32[2]") },
  });
});

test("arguments are refused with what is wrong with them", async () => {
  const [group] = await joinPair();
  await expect(group.allReduce(ones([2, 3]).t())).rejects.toThrow(/float32\[3, 2\].*contiguous\(\)/);
  await expect(group.allReduce(zeros([2], { dtype: "int64" }), "mean")).rejects.toThrow(/mean of int64\[2\]/);
  await expect(group.allReduce(zeros([2], { dtype: "bool" }))).rejects.toThrow(/cannot reduce bool\[2\]/);
  await expect(group.broadcast(zeros([2]), 2)).rejects.toThrow(/'root' must be a rank of the group, 0 to 1, got 2/);
  await expect(group.send(zeros([2]), 0)).rejects.toThrow(/'to' must be another rank/);
  await expect(group.reduceScatter(zeros([2]), zeros([3]))).rejects.toThrow(/'input' is float32\[3\].* 4 values/);
  await expect(group.allGatherInto(zeros([2], { dtype: "int64" }), zeros([1]))).rejects.toThrow(/type of the input/);
  group.dispose();
  await expect(group.barrier()).rejects.toMatchObject({ code: "DISPOSED_OBJECT" });
});

test("parameters, inference tensors, views, scalars and empty tensors can be reduced", async () => {
  const [first, second] = await joinPair();
  const makers = [
    () => {
      const leaf = ones([2]);
      leaf.requiresGrad = true;
      return leaf;
    },
    () => inferenceMode(() => ones([2])),
    () => ones([4]).slice(0, 1, 3),
    () => tensor(1),
    () => zeros([0, 3]),
  ];
  for (const make of makers) {
    const values = [make(), make()] as const;
    await Promise.all([first.allReduce(values[0], "mean"), second.allReduce(values[1], "mean")]);
    await Promise.all([first.broadcast(values[0]), second.broadcast(values[1])]);
    const gathered = await Promise.all([first.allGather(values[0]), second.allGather(values[1])]);
    expect(values[0].toArray()).toEqual(Array(values[0].numel).fill(1));
    expect(gathered[1].flatMap((one) => one.toArray())).toEqual(Array(2 * values[0].numel).fill(1));
  }
});

test("a tensor that is disposed in flight keeps its memory until the end", async () => {
  const [first, second] = await joinPair();
  const received = zeros([1000]);
  const receiving = second.receive(received, 0);
  const sending = tensorScope(() => {
    const sent = ones([1000]).mul(3);
    return { promise: first.send(sent, 1) };
  });
  for (let i = 0; i < 100; i++) tensorScope(() => void zeros([1000]));
  await Promise.all([receiving, sending.promise]);
  expect(received.sum().item()).toBe(3000);
});

test("collectives leave no memory behind", async () => {
  const [first, second] = await joinPair();
  const input = [ones([1000]), ones([1000])] as const;
  const output = [zeros([500]), zeros([500])] as const;
  const round = async () => {
    await Promise.all([first.allReduce(input[0], "max"), second.allReduce(input[1], "max")]);
    await Promise.all([first.reduceScatter(output[0], input[0]), second.reduceScatter(output[1], input[1])]);
    const gathered = await Promise.all([first.allGather(input[0]), second.allGather(input[1])]);
    for (const one of gathered.flat()) one.dispose();
  };
  await round();
  const before = native.memoryStats();
  for (let i = 0; i < 30; i++) await round();
  // The threads of Gloo let go of the last transfer a moment after it has ended; and what earlier tests left to the
  // garbage collector may go in between.
  await expect.poll(() => native.memoryStats().liveBytes).toBeLessThanOrEqual(before.liveBytes);
  expect(native.memoryStats().liveTensors).toBeLessThanOrEqual(before.liveTensors);
});
