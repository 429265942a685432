/**
 * A connection that carries nothing, and ends when the server does: how one is noticed that started again, and does not say so.
 *
 * Servers leave a connection alone on which nothing was asked. One that is closed for another reason costs a reload of the weights.
 */
import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { remoteFault } from "./remote-fault.ts";

/** The system itself tries to connect for two minutes, and waits forever for a server that does not answer with TLS. */
const CONNECT_MS = 10_000;

/** How often the system asks a silent machine whether it is still there. */
const PROBE_MS = 15_000;

export class Lifeline {
  readonly #socket: Socket;
  #isCut = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setTimeout(0).setKeepAlive(true, PROBE_MS).unref();
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#isCut = true;
    });
    socket.resume();
  }

  /** Rejects with a REMOTE_FAULT where the server cannot be reached. */
  static open(url: string, connectMs = CONNECT_MS): Promise<Lifeline> {
    const { protocol, hostname, port } = new URL(url);
    const place = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (protocol === "https:" ? 443 : 80)) };
    return new Promise((resolve, reject) => {
      const isOpen = () => resolve(new Lifeline(socket));
      const socket =
        protocol === "https:"
          ? connectTls({ ...place, ...(isIP(place.host) === 0 && { servername: place.host }) }, isOpen)
          : connect(place, isOpen);
      socket.setTimeout(connectMs, () => socket.destroy(new Error(`no answer for ${connectMs / 1000} seconds`)));
      socket.once("error", (cause) => reject(remoteFault(`${url} cannot be reached: ${cause.message}`, { cause })));
    });
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  close(): void {
    this.#socket.destroy();
  }
}
