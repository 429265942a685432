/**
 * `reroll serve`: an engine behind an OpenAI-compatible address, until someone stops it.
 *
 * In: built parts and where to listen. Out: a running server. The engine is closed with it.
 */
import { randomUUID } from "node:crypto";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Engine } from "../generation/engine.ts";
import { createServer } from "../generation/server/create-server.ts";
import type { ServerOptions, WeightLoading } from "../generation/server/server-parts.ts";
import type { Sessions } from "../generation/server/sessions.ts";
import type { ListenAddress } from "../services/listen-address.ts";

/** Built parts, and where to listen. */
export interface ServeOptions extends ServerOptions, ListenAddress {
  readonly engine: Engine;
  readonly tokenizer: Tokenizer;
  /** The name that clients ask for. */
  readonly modelName: string;
  /** Lets a trainer in another process load new weights. */
  readonly weights?: WeightLoading;
  /** Ends the server when it is aborted. */
  readonly signal?: AbortSignal;
  /** Where lines for a person go. Default: the console. */
  readonly print?: (line: string) => void;
}

/** A server that answers. */
export interface RunningServe {
  /** The address of the server, without /v1. */
  readonly url: string;
  /** The episodes of agents, for a trainer in this process. */
  readonly sessions: Sessions;
  /** Resolves when the server and its engine are closed. */
  readonly closed: Promise<void>;
  close(): Promise<void>;
}

/** Starts to serve, and resolves once clients can connect. If that fails, the engine is closed too. */
export async function serve(options: ServeOptions): Promise<RunningServe> {
  const { engine, signal, print = console.log } = options;
  try {
    const { url, sessions, closed, close } = await startServing(options, print);
    signal?.addEventListener("abort", () => void close(), { once: true });
    if (signal?.aborted) await close();
    else announce(options, url, print, engine.status().decoding);
    return { url, sessions, closed, close };
  } catch (cause) {
    await engine.close();
    throw cause;
  }
}

async function startServing(options: ServeOptions, print: (line: string) => void): Promise<RunningServe> {
  const { engine, tokenizer, modelName, weights } = options;
  const onError = (cause: unknown) => print(`server error: ${describe(cause)}`);
  const parts = { engine, tokenizer, modelName, clock: Date.now, newId: randomUUID, onError };
  const server = createServer({ ...parts, ...(weights !== undefined && { weights }) }, options);
  const url = await server.listen(options);
  let resolve: (closing: Promise<void>) => void = () => {};
  const closed = new Promise<void>((settle) => {
    resolve = settle;
  });
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= server.close().finally(() => engine.close());
    resolve(closing);
    return closing;
  };
  return { url, sessions: server.sessions, closed, close };
}

function announce(
  { modelName, apiKey }: ServeOptions,
  url: string,
  print: (line: string) => void,
  decoding: string | undefined,
): void {
  print(`${modelName} is served at ${url}/v1 (${apiKey === undefined ? "no API key" : "with an API key"})`);
  print(`health: ${url}/health, metrics: ${url}/metrics, reward of an episode: POST ${url}/v1/sessions/<id>/reward`);
  if (decoding !== undefined) print(`the engine decodes ${decoding}`);
}

function describe(cause: unknown): string {
  if (cause instanceof RerollError)
    return `${cause.code}: ${cause.message}${cause.cause ? ` (${describe(cause.cause)})` : ""}`;
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
}
