/** Lines between threads of one process: from a worker thread's owner, and from either end of a message port. */
import type { MessagePort, Worker } from "node:worker_threads";
import type { Transport } from "./transport.ts";

/** The owner's end of the line to a worker thread. Closing it ends the thread, whatever that is doing. */
export function threadTransport(worker: Worker): Transport {
  return {
    post: (message, moved = []) => worker.postMessage(message, moved),
    onMessage: (listen) => void worker.on("message", listen),
    onEnd: (listen) => {
      worker.on("messageerror", (error) => listen(`sent what cannot be read: ${error.message}`));
      worker.on("error", (error) => listen(`crashed: ${error.message}`));
      worker.on("exit", (code) => listen(`ended with code ${code}`));
    },
    close: async () => void (await worker.terminate()),
  };
}

/** One end of a message port, such as a thread's own port to its owner. */
export function portTransport(port: MessagePort): Transport {
  // Taken now: a thread shares its port with the code that it runs.
  const post = port.postMessage.bind(port);
  return {
    post: (message, moved = []) => post(message, moved),
    onMessage: (listen) => void port.on("message", listen),
    onEnd: (listen) => void port.on("close", () => listen("closed its port")),
    close: async () => port.close(),
  };
}
