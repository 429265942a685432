/** NCCL with one rank: all that one GPU can run. Skipped where the addon has no NCCL or the machine no GPU. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { native } from "../../src/torch/binding.ts";
import { tensor, zeros } from "../../src/torch/create.ts";
import { DataParallel } from "../../src/torch/distributed/data-parallel.ts";
import type { ProcessGroup } from "../../src/torch/distributed/process-group.ts";
import { availableBackends, joinGroup, openStore } from "../../src/torch/distributed/rendezvous.ts";
import { Parameter } from "../../src/torch/nn/module.ts";

const hasNccl = availableBackends().includes("nccl") && native.cudaDeviceCount() > 0;
const device = "cuda:0";

test("a group over NCCL takes the device of a run file, which may have no number, for the first", async () => {
  const asked = vi.spyOn(native, "joinGroup").mockRejectedValue(new Error("asked"));
  const store = await openStore({ type: "local" });
  await expect(joinGroup({ store, backend: "nccl", rank: 0, worldSize: 1, device: "cuda" })).rejects.toThrow("asked");
  expect(asked.mock.calls[0]).toContain("cuda:0");
  asked.mockRestore();
  store.dispose();
});

describe.skipIf(!hasNccl)("one rank on one GPU", () => {
  let folder: string;
  let group: ProcessGroup;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "reroll-nccl-"));
    const store = await openStore({ type: "file", path: join(folder, "store"), worldSize: 1 });
    // As run files name the device.
    group = await joinGroup({ store, backend: "nccl", rank: 0, worldSize: 1, device: "cuda", timeoutMs: 20_000 });
  });
  afterAll(() => {
    group?.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  test.each(["sum", "mean", "max", "min", "product"] as const)(
    "the %s of one rank is its own value",
    async (reduction) => {
      const values = tensor([1, 2], { device });
      await group.allReduce(values, reduction);
      group.allReduceSync(values, reduction);
      expect(values.toArray()).toEqual([1, 2]);
      const part = zeros([2], { device });
      await group.reduceScatter(part, values, reduction);
      expect(part.toArray()).toEqual([1, 2]);
    },
  );

  test("values are gathered, broadcast and waited for", async () => {
    const values = tensor([3, 4], { dtype: "bfloat16", device });
    const [gathered] = await group.allGather(values);
    expect(gathered?.toArray()).toEqual([3, 4]);
    const joined = zeros([1, 2], { dtype: "bfloat16", device });
    await group.allGatherInto(joined, values);
    expect(joined.toArray()).toEqual([3, 4]);
    await Promise.all([group.broadcast(values), group.barrier()]);
    group.barrierSync();
    expect(values.toArray()).toEqual([3, 4]);
  });

  test("collectives in flight together see what was computed before each", async () => {
    const values = Array.from({ length: 16 }, (_, i) => tensor([i], { device }).mul(2));
    await Promise.all(values.map((value) => group.allReduce(value)));
    expect(values.map((value) => value.item())).toEqual(Array.from({ length: 16 }, (_, i) => 2 * i));
  });

  test("gradients of one rank stay as they are", async () => {
    const weight = new Parameter(tensor([1, 2], { device }));
    const parallel = await DataParallel.create({ group, parameters: new Map([["weight", weight]]) });
    weight.square().sum().backward();
    await parallel.reduceGradients();
    expect(weight.grad?.toArray()).toEqual([2, 4]);
  });

  test("a tensor of another device is refused", async () => {
    await expect(group.allReduce(zeros([2]))).rejects.toThrow(/moves tensors of cuda:0/);
  });
});

test.skipIf(availableBackends().includes("nccl"))("without NCCL in the addon a group of it is refused", async () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-nccl-"));
  const store = await openStore({ type: "file", path: join(folder, "store"), worldSize: 1 });
  await expect(joinGroup({ store, backend: "nccl", rank: 0, worldSize: 1 })).rejects.toMatchObject({
    code: "UNKNOWN_BACKEND",
    message: expect.stringContaining("It was built with: gloo"),
  });
  rmSync(folder, { recursive: true, force: true });
});
