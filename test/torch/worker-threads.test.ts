/** Threads that use the addon at the same time, and tensors that go from one to another. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { native } from "../../src/torch/binding.ts";
import { full, ones, tensor } from "../../src/torch/create.ts";
import { joinGroup, openStore } from "../../src/torch/distributed/rendezvous.ts";
import {
  discardParcel,
  numWaitingParcels,
  receiveTensor,
  sendTensor,
  type TensorParcel,
} from "../../src/torch/parcel.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { exitOf, nextMessage, startWorker } from "./workers/start-worker.ts";

test("four threads compute at once, each with its own scopes", async () => {
  const workers = [1, 2, 3, 4].map((value) => startWorker("busy.ts", { durationMs: 1_000, value }));
  const results = await Promise.all(
    workers.map((worker) => nextMessage<{ numRounds: number; numWrong: number; liveTensors: number }>(worker)),
  );
  for (const result of results) {
    expect(result).toMatchObject({ numWrong: 0, liveTensors: 0 });
    expect(result.numRounds).toBeGreaterThan(0);
  }
});

test("a worker keeps the number of threads that it has set, whatever another thread sets", async () => {
  const before = native.numThreads();
  const worker = startWorker("own-threads.ts", { count: 1 });
  expect(await nextMessage<string>(worker)).toBe("set");
  native.setNumThreads(3);
  worker.postMessage("go on");
  expect(await nextMessage<number>(worker)).toBe(1);
  native.setNumThreads(before);
  await worker.terminate();
});

test("a tensor of a worker is received without a copy, and outlives the worker", async () => {
  const worker = startWorker("send-and-exit.ts");
  const exit = exitOf(worker);
  const { parcel, storageAddress } = await nextMessage<{ parcel: TensorParcel; storageAddress: number }>(worker);
  expect(await exit).toBe(0);
  expect(parcel.description).toBe("float32[3]");
  const received = receiveTensor(parcel);
  expect(received.storageAddress).toBe(storageAddress);
  expect(received.add(1).toArray()).toEqual([2, 3, 4]);
});

test("what one thread writes the other sees", async () => {
  const worker = startWorker("double.ts");
  const mine = tensor([1, 2]);
  worker.postMessage([sendTensor(mine)]);
  const { parcels, addresses } = await nextMessage<{ parcels: TensorParcel[]; addresses: number[] }>(worker);
  expect(addresses).toEqual([mine.storageAddress]);
  expect(mine.toArray()).toEqual([2, 4]);
  for (const parcel of parcels) discardParcel(parcel);
  await worker.terminate();
});

test("thousands of parcels leave no memory behind", async () => {
  const worker = startWorker("double.ts");
  const roundTrip = async (count: number) => {
    const sent = tensorScope(() => Array.from({ length: count }, (_, i) => sendTensor(full([256], i))));
    worker.postMessage(sent);
    const { parcels } = await nextMessage<{ parcels: TensorParcel[] }>(worker);
    return tensorScope(() => parcels.map((parcel) => receiveTensor(parcel).max().item()));
  };
  await roundTrip(1);
  const before = native.memoryStats();
  for (let round = 0; round < 5; round++) {
    const values = await roundTrip(1_000);
    expect(values.every((value, i) => value === 2 * i)).toBe(true);
  }
  const after = native.memoryStats();
  expect(after.liveBytes).toBeLessThanOrEqual(before.liveBytes);
  expect(after.liveTensors).toBeLessThanOrEqual(before.liveTensors);
  expect(numWaitingParcels()).toBe(0);
  await worker.terminate();
});

test("a parcel is received once, in its own process", () => {
  const parcel = sendTensor(ones([2]));
  receiveTensor(parcel).dispose();
  expect(() => receiveTensor(parcel)).toThrow(expect.objectContaining({ code: "UNKNOWN_PARCEL" }));
  expect(() => discardParcel(parcel)).toThrow(expect.objectContaining({ code: "UNKNOWN_PARCEL" }));
  const foreign = { ...sendTensor(ones([2])), processId: process.pid + 1 };
  expect(() => receiveTensor(foreign)).toThrow(/float32\[2\] was sent in process/);
  discardParcel({ ...foreign, processId: process.pid });
});

test("a worker can be terminated in the middle of its work", async () => {
  const before = native.memoryStats().liveBytes;
  for (let round = 0; round < 3; round++) {
    const worker = startWorker("endless.ts");
    expect(await nextMessage<string>(worker)).toBe("started");
    await worker.terminate();
  }
  expect(
    ones([2, 2])
      .matmul(ones([2, 2]))
      .toArray(),
  ).toEqual([2, 2, 2, 2]);
  expect(native.memoryStats().liveBytes).toBeLessThanOrEqual(before + 1024);
});

test("a worker can be terminated while its collectives wait, long before they give up", async () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-worker-"));
  const storePath = join(folder, "store");
  const timeoutMs = 30_000;
  const worker = startWorker("waiting-rank.ts", { storePath, timeoutMs });
  const store = await openStore({ type: "file", path: storePath, worldSize: 2 });
  const waiting = nextMessage<string>(worker);
  const group = await joinGroup({
    store,
    backend: "gloo",
    rank: 0,
    worldSize: 2,
    timeoutMs,
    listenAt: { host: "127.0.0.1" },
  });
  expect(await waiting).toBe("waiting");
  const start = performance.now();
  await worker.terminate();
  expect(performance.now() - start).toBeLessThan(timeoutMs / 3);

  // The collective that the worker had started is still answered, so that no peer is left hanging.
  const value = tensor([2]);
  await group.allReduce(value);
  expect(value.item()).toBe(3);
  rmSync(folder, { recursive: true, force: true });
});
