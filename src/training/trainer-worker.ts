/** The thread of a ThreadedTrainer: a TrainerHost behind messages, one call at a time. */
import { parentPort, workerData } from "node:worker_threads";
import { invariant, RerollError } from "../errors/reroll-error.ts";
import { setNumThreads } from "../torch/memory.ts";
import { sendTensor } from "../torch/parcel.ts";
import { tensorScope } from "../torch/scope.ts";
import { TrainerHost, type TrainerHostSource } from "./trainer-host.ts";
import type { FromTrainer, NamedParcel, ToTrainer, TrainerCall } from "./trainer-messages.ts";

const port = parentPort;
invariant(port !== null, "trainer-worker runs in a worker thread");
const host = workerData as TrainerHostSource;
const { numThreads } = host.source;
if (numThreads !== undefined) setNumThreads(numThreads);
const trainer = await TrainerHost.create(host);

async function answer(call: TrainerCall): Promise<unknown> {
  switch (call.kind) {
    case "step":
      return trainer.step(call.batch);
    case "supervised":
      return trainer.stepSupervised(call.samples);
    case "weights":
      return tensorScope((): NamedParcel[] =>
        [...trainer.weights()].map(([name, tensor]) => ({ name, parcel: sendTensor(tensor) })),
      );
    case "saveModel":
      return trainer.saveModel(call.folder);
    case "saveState":
      return trainer.saveState(call.folder);
    case "loadState":
      return trainer.loadState(call.folder);
    case "close":
      return trainer.dispose();
  }
}

function post(message: FromTrainer): void {
  port?.postMessage(message);
}

port.on("message", async ({ id, call }: ToTrainer) => {
  try {
    post({ kind: "done", id, result: await answer(call) });
    if (call.kind === "close") port.close();
  } catch (cause) {
    const code = cause instanceof RerollError ? cause.code : "INTERNAL";
    post({ kind: "failed", id, error: { code, message: cause instanceof Error ? cause.message : String(cause) } });
  }
});
post({ kind: "ready" });
