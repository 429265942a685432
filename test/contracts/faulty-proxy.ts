/**
 * A proxy that breaks a part of what passes through it, as networks and busy servers do.
 *
 * Which requests suffer follows from the seed and the order in which they come; the faults take turns.
 */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface FaultyProxy {
  readonly url: string;
  /** How often each fault was dealt out. */
  readonly faults: ReadonlyMap<Fault, number>;
  close(): Promise<void>;
}

export type Fault = (typeof FAULTS)[number];

export const FAULTS = ["drop", "500", "503", "429", "html", "slow", "garbled", "empty", "torn", "cut short"] as const;

/** @param rate part of the requests that get a fault, from 0 to 1 */
export async function startFaultyProxy(target: string, rate: number, seed: number): Promise<FaultyProxy> {
  const faults = new Map<Fault, number>();
  const chance = createChance(seed);
  let numFaults = 0;
  const server = createServer((request, response) => {
    const fault = chance() < rate ? FAULTS[numFaults++ % FAULTS.length] : undefined;
    if (fault !== undefined) faults.set(fault, (faults.get(fault) ?? 0) + 1);
    void pass(target, request, response, fault, Math.floor(chance() * 600));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    faults,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function pass(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  fault: Fault | undefined,
  numBytes: number,
): Promise<void> {
  switch (fault) {
    case "drop":
      request.socket.destroy();
      return;
    case "500":
    case "503":
      response
        .writeHead(Number(fault))
        .end(JSON.stringify({ error: { message: "out of luck", type: "server_error" } }));
      return;
    case "429":
      response.writeHead(429, { "retry-after": "0.005" }).end(JSON.stringify({ error: { message: "later" } }));
      return;
    case "html":
      response.writeHead(502, { "content-type": "text/html" }).end("<html>Bad gateway</html>");
      return;
    case "garbled":
      response.writeHead(200, { "content-type": "text/event-stream" }).end('data: {"choices": [{]}\n\n');
      return;
    case "empty":
      response.writeHead(200, { "content-type": "text/event-stream" }).end();
      return;
    case "slow":
      await sleep(20);
      forward(target, request, response, Infinity, () => {});
      return;
    case "torn":
      forward(target, request, response, numBytes, () => response.destroy());
      return;
    case "cut short":
      forward(target, request, response, numBytes, () => response.end());
      return;
    case undefined:
      forward(target, request, response, Infinity, () => {});
  }
}

/** Passes everything on, until the answer has more than `maxBytes`. */
function forward(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  maxBytes: number,
  onLimit: () => void,
): void {
  const { method, headers } = request;
  const upstream = httpRequest(target + request.url, {
    method: method ?? "GET",
    headers: { ...headers, connection: "close" },
  });
  response.on("close", () => upstream.destroy());
  upstream.on("error", () => response.destroy());
  upstream.on("response", (answer) => {
    let numBytes = 0;
    response.writeHead(answer.statusCode ?? 500, { ...answer.headers, connection: "close" });
    answer.on("data", (chunk: Buffer) => {
      numBytes += chunk.length;
      if (numBytes <= maxBytes) {
        response.write(chunk);
        return;
      }
      if (!response.writableEnded) response.write(chunk.subarray(0, chunk.length - (numBytes - maxBytes)));
      onLimit();
      upstream.destroy();
    });
    answer.on("end", () => response.end());
    answer.on("error", () => response.destroy());
  });
  request.pipe(upstream);
}

function createChance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
