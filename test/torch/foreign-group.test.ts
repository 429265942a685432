/** A group with a rank that is not ours: PyTorch in Python, which joins as SGLang does. */
import { execFile, spawnSync } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { native } from "../../src/torch/binding.ts";
import { empty, tensor } from "../../src/torch/create.ts";
import { availableBackends, joinGroup, openStore, pythonGroupPrefix } from "../../src/torch/distributed/rendezvous.ts";
import { keep, tensorScope } from "../../src/torch/scope.ts";

const release = native.torchVersion.split(".").slice(0, 2).join(".");
const python = ["python3", "/usr/bin/python3"].find((one) => {
  const asked = spawnSync(one, ["-c", "import torch; print(torch.__version__)"], { encoding: "utf8" });
  return asked.status === 0 && asked.stdout.startsWith(`${release}.`);
});
const why = python === undefined ? ` (skipped: no Python has torch ${release}, the version of our libtorch)` : "";
const canRun = python !== undefined && availableBackends().includes("gloo");

test.skipIf(!canRun)(`what is broadcast arrives to the bit at a rank of SGLang's${why}`, async () => {
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  const facts = [
    ["float32", [7, 3]],
    ["float16", [5]],
    ["float32", []],
  ] as const;
  const name = "weights-7";
  const args = ["test/torch/peers/sglang_rank.py", String(store.port), name, "1", "2", JSON.stringify(facts)];
  // Both on loopback: the name of a machine may resolve to an address that nothing listens at.
  const peer = promisify(execFile)(python!, args, { env: { ...process.env, GLOO_SOCKET_IFNAME: "lo" } });
  peer.catch(() => {});
  const membership = { store, name, backend: "gloo" as const, rank: 0, worldSize: 2, timeoutMs: 30_000 };
  const group = await joinGroup({ ...membership, foreign: { prefix: pythonGroupPrefix(name, "gloo") } });
  const sent: string[] = [];
  for (const [dtype, shape] of facts) {
    const size = shape.reduce((product: number, one) => product * one, 1);
    const values = Array.from({ length: size }, (_, i) => Math.sin(i + 1));
    const weight = keep(tensorScope(() => empty(shape, { dtype }).copy_(tensor(values).view(...shape))));
    await group.broadcast(weight, 0);
    sent.push(Buffer.from(tensorScope(() => weight.reshape(-1).viewAs("uint8").toArray())).toString("hex"));
    weight.dispose();
  }
  const { stdout } = await peer;
  expect(JSON.parse(stdout)).toEqual(sent);
  group.dispose();
  store.dispose();
});

test("what is left in a store is read from it, and what nobody leaves is waited for until the limit", async () => {
  const memory = await openStore({ type: "local" });
  const waiting = memory.get("id");
  await memory.set("id", Uint8Array.of(0, 128, 255));
  expect([...(await waiting)]).toEqual([0, 128, 255]);
  const server = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  await server.set("id", Uint8Array.of(7));
  const client = await openStore({ type: "tcp", host: "127.0.0.1", port: server.port!, isServer: false });
  expect([...(await client.get("id"))]).toEqual([7]);
  await expect(client.get("nothing", 50)).rejects.toMatchObject({ code: "RENDEZVOUS_TIMEOUT" });
  for (const store of [memory, client, server]) store.dispose();
});
