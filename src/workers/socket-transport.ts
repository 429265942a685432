/** Lines between machines: structured clone, as bytes on a socket. */
import { deserialize, serialize } from "node:v8";
import type { Frames, Heartbeat } from "./frames.ts";
import type { Transport } from "./transport.ts";

/** The line over a connection whose two ends know each other. Closing it ends a worker at the far end. */
export function socketTransport(frames: Frames, heartbeat: Heartbeat): Transport {
  frames.maxBytes = Number.POSITIVE_INFINITY;
  frames.beat(heartbeat);
  return {
    post: (message) => frames.send(serialize(message)),
    onMessage: (listen) => frames.listen((frame) => listen(deserialize(frame))),
    onEnd: (listen) => frames.onEnd(listen),
    close: () => frames.close(),
  };
}
