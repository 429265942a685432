/**
 * Weights for a rank that is not ours: a Python process joins a c10d group by the call that SGLang makes, receives tensors, and its sums over their
 * bytes must be ours.
 *
 * node --import tsx bench/gpu/check-foreign-group.ts <peer.py> gloo|nccl [python]
 * Its torch must be of the version of our libtorch. With nccl both ranks share cuda:0, which NCCL allows where each has a NCCL_HOSTID of its own.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { native } from "../../src/torch/binding.ts";
import { empty, tensor } from "../../src/torch/create.ts";
import { joinGroup, openStore, pythonGroupPrefix } from "../../src/torch/distributed/rendezvous.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { keep, tensorScope } from "../../src/torch/scope.ts";

const [peer = "", backendGiven = "gloo", python = "python3"] = process.argv.slice(2);
const backend = backendGiven === "nccl" ? "nccl" : "gloo";
const device = backend === "nccl" ? "cuda:0" : "cpu";
const all: readonly (readonly [DType, readonly number[]])[] = [
  ["float32", [37, 64]],
  ["bfloat16", [129, 33]],
  ["float16", [5]],
  ["float32", []],
];
// Gloo of torch 1.13 in Python does not know bfloat16.
const facts = all.filter(([dtype]) => dtype !== "bfloat16" || !native.torchVersion.startsWith("1."));

const host = "127.0.0.1";
const store = await openStore({ type: "tcp", host, port: 0, isServer: true });
const name = "reroll-0";
const args = [host, String(store.port), name, backend, "1", "2", JSON.stringify(facts)];
const env = { ...process.env, NCCL_HOSTID: "peer", GLOO_SOCKET_IFNAME: "lo" };
const answered = promisify(execFile)(python, [peer, ...args], { env, timeout: 60_000 });
answered.catch(() => {});
const foreign = { prefix: pythonGroupPrefix(name, backend), isLazy: true };
const joined = joinGroup({ store, name, backend, rank: 0, worldSize: 2, foreign, device, timeoutMs: 50_000 });
const group = await Promise.race([joined, answered.then(({ stderr }) => Promise.reject(new Error(stderr)))]);
const sums: number[] = [];
for (const [i, [dtype, shape]] of facts.entries()) {
  const values = Array.from({ length: shape.reduce((size, one) => size * one, 1) }, (_, at) => Math.sin(at + i));
  const sent = keep(
    tensorScope(() =>
      empty(shape, { dtype })
        .copy_(tensor(values).view(...shape))
        .toDevice(device),
    ),
  );
  await group.broadcast(sent, 0);
  sums.push(sumOf(values, dtype));
  sent.dispose();
}
const heard = JSON.parse((await answered).stdout) as { readonly torch: string; readonly sums: readonly number[] };
const isEqual = heard.sums.every((sum, i) => sum === sums[i]);
console.log(
  `${backend}, torch ${heard.torch}: ${isEqual ? "every byte arrived" : `sums differ: ${heard.sums} and ${sums}`}`,
);
group.dispose();
store.dispose();
process.exitCode = isEqual ? 0 : 1;

/** Bytes weighted by their places, as the peer adds them up. */
function sumOf(values: readonly number[], dtype: DType): number {
  const bytes = tensorScope(() => {
    const typed = empty([values.length], { dtype }).copy_(tensor(values));
    return Uint8Array.from(typed.viewAs("uint8").toArray());
  });
  return bytes.reduce((sum, byte, i) => sum + byte * ((i + 1) % 251), 0);
}
