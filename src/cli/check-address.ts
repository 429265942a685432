/**
 * Checks that a server can listen, before a model is loaded for it.
 *
 * In: an address as a person typed it. Out: nothing, or an error that names the flag to change.
 */
import { createServer } from "node:net";
import { RerollError } from "../errors/reroll-error.ts";
import { isLoopback, listenError } from "../services/listen-address.ts";

/** An address as a person typed it. */
interface TypedAddress {
  readonly host: string;
  /** The port. 0 takes any free one. */
  readonly port: number;
  readonly hasKey: boolean;
}

/** Throws if others could use the server without a key, or if the address cannot be listened on. */
export async function checkAddress({ host, port, hasKey }: TypedAddress): Promise<void> {
  if (!hasKey && !isLoopback(host)) {
    throw new RerollError(
      "SERVER_UNPROTECTED",
      `--host ${host} lets anyone who reaches this machine use the model. Add --api-key <key>, or leave --host out to serve this machine only.`,
      { host },
    );
  }
  await new Promise<void>((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (cause) => reject(listenError(cause, { host, port })));
    probe.listen({ host, port }, () => probe.close(() => resolve()));
  });
}
