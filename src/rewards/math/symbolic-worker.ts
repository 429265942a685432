/**
 * The thread of the symbolic pool: in come pairs of LaTeX, out go verdicts, one for one, in order.
 *
 * The computer algebra system is loaded here and nowhere else, before the first word that the thread is ready.
 */
import { parentPort } from "node:worker_threads";
import { ComputeEngine } from "@cortex-js/compute-engine";
import { invariant } from "../../errors/reroll-error.ts";
import type { ThreadReply } from "../thread-pool.ts";
import type { Verdict } from "./compare-expressions.ts";
import { compareSymbolic } from "./compare-symbolic.ts";
import type { SymbolicRequest } from "./symbolic-pool.ts";

const port = parentPort;
invariant(port !== null, "symbolic-worker runs as a worker thread");
const engine = new ComputeEngine();
const send = (reply: ThreadReply<Verdict>) => port.postMessage(reply);
port.on("message", ({ left, right }: SymbolicRequest) => {
  send({ kind: "result", result: compareSymbolic(engine, left, right) });
});
send({ kind: "ready" });
