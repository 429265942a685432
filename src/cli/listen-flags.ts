/**
 * Where a server of the command line listens, and who may use it.
 *
 * In: flags as a person typed them. Out: an address that is free and protected where it has to be, found out before anything is loaded for it.
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { type Command, Option } from "commander";
import { RerollError } from "../errors/reroll-error.ts";
import { expectUsableKey } from "../services/bearer-key.ts";
import { isLoopback, listenError } from "../services/listen-address.ts";
import { wholeNumber } from "./flag-values.ts";

/** What `withListenFlags` adds. */
export interface ListenFlags {
  readonly port: number;
  readonly host: string;
  readonly apiKey?: string;
  readonly apiKeyFile?: string;
}

/** @param guests who the server is for, as in "what clients must send" */
export function withListenFlags(command: Command, { port, guests }: { port: number; guests: string }): Command {
  return command
    .option("--port <n>", "port to listen on; 0 takes a free one", wholeNumber(0, 65535), port)
    .option("--host <address>", "address to listen on; one that other machines reach needs an API key", "127.0.0.1")
    .option("--api-key <key>", `what ${guests} must send as bearer token`)
    .addOption(
      new Option(
        "--api-key-file <file>",
        "file that holds the API key, to keep it out of the list of processes",
      ).conflicts("apiKey"),
    );
}

/** The API key. Throws if it cannot be used, if others could use the server without one, or if the address cannot be listened on. */
export async function checkListenFlags({ host, port, ...flags }: ListenFlags): Promise<string | undefined> {
  const apiKey = readKey(flags);
  if (apiKey !== undefined) expectUsableKey(apiKey);
  else if (!isLoopback(host)) {
    throw new RerollError(
      "SERVER_UNPROTECTED",
      `--host ${host} lets anyone who reaches this machine use the server. Add --api-key-file <file>, or leave --host out to serve this machine only.`,
      { host },
    );
  }
  await new Promise<void>((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (cause) => reject(listenError(cause, { host, port })));
    probe.listen({ host, port }, () => probe.close(() => resolve()));
  });
  return apiKey;
}

function readKey({ apiKey, apiKeyFile }: Pick<ListenFlags, "apiKey" | "apiKeyFile">): string | undefined {
  if (apiKeyFile === undefined) return apiKey;
  try {
    return readFileSync(apiKeyFile, "utf8").trim();
  } catch (cause) {
    throw new RerollError(
      "FILE_INVALID",
      `--api-key-file ${apiKeyFile} cannot be read: ${String(cause)}.`,
      {},
      { cause },
    );
  }
}
