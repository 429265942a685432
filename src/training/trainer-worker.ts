/** The thread of a ThreadedTrainer: a TrainerHost behind messages, one call at a time. */
import { parentPort, workerData } from "node:worker_threads";
import { invariant, RerollError } from "../errors/reroll-error.ts";
import { setNumThreads } from "../torch/memory.ts";
import { sendTensor } from "../torch/parcel.ts";
import { tensorScope } from "../torch/scope.ts";
import type { StepReport } from "./token-trainer.ts";
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
      return trainer.step(call.batch, call.options);
    case "supervised":
      return trainer.stepSupervised(call.samples);
    case "weights":
      return tensorScope((): NamedParcel[] =>
        [...trainer.weights()].map(([name, tensor]) => ({ name, parcel: sendTensor(tensor) })),
      );
    case "saveModel":
      return trainer.saveModel(call.folder);
    case "saveMerged":
      return trainer.saveMerged(call.folder);
    case "saveState":
      return trainer.saveState(call.folder);
    case "loadState":
      return trainer.loadState(call.folder);
    case "close":
      return trainer.dispose();
  }
}

function post(message: FromTrainer, moved: readonly ArrayBufferLike[] = []): void {
  port?.postMessage(message, moved as ArrayBuffer[]);
}

/** The memory of arrays that nobody here needs any more. */
function buffersOf({ numbers }: StepReport): readonly ArrayBufferLike[] {
  return [...(numbers?.values() ?? [])].flatMap((arrays) => Object.values(arrays).map(({ buffer }) => buffer));
}

port.on("message", async ({ id, call }: ToTrainer) => {
  try {
    const result = await answer(call);
    post({ kind: "done", id, result }, call.kind === "step" ? buffersOf(result as StepReport) : []);
    if (call.kind === "close") port.close();
  } catch (cause) {
    const code = cause instanceof RerollError ? cause.code : "INTERNAL";
    post({ kind: "failed", id, error: { code, message: cause instanceof Error ? cause.message : String(cause) } });
  }
});
post({ kind: "ready" });
