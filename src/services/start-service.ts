/**
 * A small HTTP server for calls in JSON, behind a key.
 *
 * A call that throws is answered with the code and the words of its error, which the caller throws again. The connection of a caller may break
 * while its call runs: the call goes on, since it will be asked again.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { RerollError } from "../errors/reroll-error.ts";
import { createKeyCheck } from "./bearer-key.ts";
import { listenError } from "./listen-address.ts";

/** One call: its method and path, in which `:name` takes one part. */
export interface ServiceRoute {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  handle(names: Readonly<Record<string, string>>, body: unknown): unknown;
}

interface ServiceAddress {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly apiKey?: string | undefined;
}

export interface RunningService {
  readonly url: string;
  close(): Promise<void>;
}

/** Larger than any conversation. */
const MAX_BODY_BYTES = 64 * 2 ** 20;

/** Errors that a caller can do something about have a status of their own. */
const STATUS: Readonly<Partial<Record<string, number>>> = {
  KEY_INVALID: 401,
  ROUTE_UNKNOWN: 404,
  ENV_SESSION_LOST: 404,
  INVALID_REQUEST: 400,
};

export async function startService(
  routes: readonly ServiceRoute[],
  { host, port, apiKey }: ServiceAddress,
): Promise<RunningService> {
  const check = apiKey === undefined ? () => {} : createKeyCheck(apiKey);
  const server = createServer(async (request, response) => {
    try {
      check(request.headers);
      const { handle, names } = routeOf(routes, request);
      const body = await readBody(request);
      send(response, 200, toJson(await handle(names, body)));
    } catch (cause) {
      const error = cause instanceof RerollError ? cause : new RerollError("INTERNAL", String(cause), {}, { cause });
      send(response, STATUS[error.code] ?? 422, toJson({ error: { code: error.code, message: error.message } }));
    }
  });
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => reject(listenError(cause, { host, port })));
    server.listen({ host, port }, resolve);
  });
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function routeOf(routes: readonly ServiceRoute[], { method, url = "/" }: IncomingMessage) {
  const given = url.split("?")[0]!.split("/");
  for (const route of routes) {
    const wanted = route.path.split("/");
    if (route.method !== method || wanted.length !== given.length) continue;
    const names: Record<string, string> = {};
    const fits = wanted.every((part, i) => {
      if (!part.startsWith(":")) return part === given[i];
      names[part.slice(1)] = decodeURIComponent(given[i]!);
      return true;
    });
    if (fits) return { handle: route.handle, names };
  }
  const known = routes.map((route) => `${route.method} ${route.path}`).join(", ");
  throw new RerollError("ROUTE_UNKNOWN", `There is no ${method} ${url.split("?")[0]} here. There are: ${known}.`);
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES)
      throw new RerollError("INVALID_REQUEST", `A call has more than ${MAX_BODY_BYTES} bytes.`);
    chunks.push(chunk);
  }
  if (size === 0) return undefined;
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new RerollError("INVALID_REQUEST", "The body of a call is not JSON.");
  }
}

/** Foreign code may give what JSON cannot hold: its own call fails, with the words of JSON.stringify. */
function toJson(answer: unknown): string {
  return answer === undefined ? "" : JSON.stringify(answer);
}

function send(response: ServerResponse, status: number, text: string): void {
  response.on("error", () => {});
  response.writeHead(status, { "content-type": "application/json" });
  response.end(text);
}
