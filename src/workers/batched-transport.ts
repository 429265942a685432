/**
 * Messages that are posted together travel together: the far end wakes once for all of them.
 *
 * Both ends of a line must be batched. A message that cannot be sent is found out too late for whoever posted it, so only
 * messages that are known to be plain data belong here.
 */
import type { Transport } from "./transport.ts";

/** @param schedule calls back when everything that belongs together has been posted: `queueMicrotask`, `setImmediate` */
export function batchedTransport(line: Transport, schedule: (flush: () => void) => void): Transport {
  let messages: unknown[] = [];
  let buffers: ArrayBuffer[] = [];
  const flush = () => {
    const [list, moved] = [messages, buffers];
    messages = [];
    buffers = [];
    line.post(list, moved);
  };
  return {
    post: (message, moved = []) => {
      messages.push(message);
      buffers.push(...moved);
      if (messages.length === 1) schedule(flush);
    },
    onMessage: (listen) => line.onMessage((list) => (list as readonly unknown[]).forEach(listen)),
    onEnd: (listen) => line.onEnd(listen),
    close: () => line.close(),
  };
}
