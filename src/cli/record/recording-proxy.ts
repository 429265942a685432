/**
 * Stands between an agent and the server of its model: passes every request on and every answer back, byte for byte and as it comes, and
 * keeps the calls of /chat/completions, /responses, /messages and /completions.
 *
 * Keys are the agent's: they are passed on and never kept. Whatever goes wrong with keeping is told and costs the agent nothing; where the
 * server cannot be reached, the agent gets 502.
 */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { isSecretName, redactText, remember } from "../../errors/redact-text.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { listenError } from "../../services/listen-address.ts";
import { readChatCall } from "./chat-calls.ts";
import { readCompletionCall } from "./completion-calls.ts";
import type { Conversations } from "./conversations.ts";
import { fieldsOf, parseJson, type ReadExchange, readAnswer } from "./exchange.ts";
import { readMessagesCall } from "./messages-calls.ts";
import { createResponsesReader } from "./responses-calls.ts";

interface ProxyOptions {
  /** The base URL that the agent would use without the recorder, such as https://api.example.com/v1. */
  readonly upstream: string;
  readonly host: string;
  readonly port: number;
  readonly conversations: Conversations;
  /** Told once of each kind of call that is passed on and not kept, and of calls that could not be read. */
  readonly tell: (text: string) => void;
}

/** A recorder that answers. */
interface RecordingProxy {
  /** The base URL for the agent. */
  readonly baseURL: string;
  close(): Promise<void>;
}

/** Longer bodies are passed on and not kept. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
/** Headers that belong to one connection. Without accept-encoding the answer is readable. */
const OWN_HEADERS = ["host", "connection", "keep-alive", "transfer-encoding", "accept-encoding", "upgrade", "te"];

export async function startRecordingProxy(options: ProxyOptions): Promise<RecordingProxy> {
  const upstream = readUpstream(options.upstream);
  const told = new Set<string>();
  const tellOnce = (text: string) => {
    if (told.has(text)) return;
    told.add(text);
    options.tell(redactText(text));
  };
  const keep = createKeeper(options.conversations, tellOnce);
  const server = createServer((request, response) => {
    void passOn(request, response, upstream, keep, tellOnce);
  });
  const { host, port } = options;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => reject(listenError(cause, { host, port })));
    server.listen({ host, port }, resolve);
  });
  const address = server.address();
  const taken = typeof address === "object" && address !== null ? address.port : port;
  return {
    baseURL: `http://${host.includes(":") ? `[${host}]` : host}:${taken}${upstream.pathname.replace(/\/$/, "")}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function readUpstream(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new RerollError(
      "INVALID_OPTION",
      `The upstream must be a base URL like https://api.example.com/v1: got ${JSON.stringify(redactText(text))}.`,
    );
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new RerollError(
      "INVALID_OPTION",
      "The upstream must hold no key, no query and no fragment. Keys stay with the agent, whose client sends them along.",
    );
  }
  return url;
}

async function passOn(
  request: IncomingMessage,
  response: ServerResponse,
  upstream: URL,
  keep: Keep,
  tell: (text: string) => void,
): Promise<void> {
  const startedMs = Date.now();
  const target = targetOf(request, upstream);
  for (const [name, values] of [...Object.entries(request.headers), ...target.searchParams])
    if (isSecretName(name)) for (const value of [values ?? []].flat()) remember(value);
  const asked = await readBody(request).catch(() => null);
  if (asked === null) return;
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !OWN_HEADERS.includes(name)));
  const send = upstream.protocol === "https:" ? httpsRequest : httpRequest;
  const sent = send(target, {
    method: request.method,
    headers: { ...headers, "content-length": String(asked.length) },
  });
  response.on("close", () => sent.destroy());
  sent.on("error", (cause) => {
    if (response.writableEnded || response.destroyed) return;
    tell(`${upstream.origin} cannot be reached: ${cause.message}.`);
    if (response.headersSent) response.destroy();
    else refuse(response, cause);
  });
  sent.on("response", (answer) => {
    const firstByteMs = Date.now() - startedMs;
    response.writeHead(answer.statusCode ?? 502, withoutOwn(answer.headers));
    const kept = new KeptBytes();
    answer.on("data", (bytes: Buffer) => {
      kept.add(bytes);
      // The agent reads as fast as it likes; what the server sends faster waits.
      if (!response.write(bytes)) {
        answer.pause();
        response.once("drain", () => answer.resume());
      }
    });
    answer.on("error", () => response.destroy());
    answer.on("end", () => {
      response.end();
      const times = { startedAt: new Date(startedMs).toISOString(), firstByteMs, ms: Date.now() - startedMs };
      const call = { path: target.pathname, method: request.method ?? "GET", status: answer.statusCode ?? 0 };
      keep({ ...call, asked, answer: kept.text(), contentType: String(answer.headers["content-type"] ?? "") }, times);
    });
  });
  sent.end(asked);
}

type Keep = (call: PassedCall, times: { startedAt: string; firstByteMs: number; ms: number }) => void;

/** Keeps calls by the end of their path: the longer of two that fit comes first. */
function createKeeper(conversations: Conversations, tell: (text: string) => void): Keep {
  const readers: readonly (readonly [string, ReadExchange])[] = [
    ["/chat/completions", readChatCall],
    ["/completions", readCompletionCall],
    ["/responses", createResponsesReader()],
    ["/messages", readMessagesCall],
  ];
  const known = readers.map(([path]) => path).join(", ");
  return ({ path, method, status, asked, answer, contentType }, times) => {
    if (method !== "POST" || status >= 400) return;
    const read = readers.find(([end]) => path.endsWith(end))?.[1];
    if (read === undefined) {
      tell(`POST ${path} is passed on and not kept: only calls of ${known} are.`);
      return;
    }
    const exchange =
      answer === null ? undefined : read(fieldsOf(parseJson(asked.toString("utf8"))), readAnswer(answer, contentType));
    if (exchange === undefined) tell("A call without a whole reply was passed on and not kept.");
    else conversations.add(exchange.asked, exchange.answered, times, Date.now());
  };
}

/** Where a request goes: to the upstream, whatever host its path may name. The agent's key is for that one alone. */
function targetOf({ url = "/" }: IncomingMessage, upstream: URL): URL {
  const { pathname, search } = URL.canParse(url, upstream.href) ? new URL(url, upstream) : upstream;
  return Object.assign(new URL(upstream.href), { pathname, search });
}

interface PassedCall {
  readonly path: string;
  readonly method: string;
  readonly status: number;
  readonly asked: Buffer;
  /** Null where it is too long to be kept. */
  readonly answer: string | null;
  readonly contentType: string;
}

class KeptBytes {
  #bytes: Buffer[] | null = [];
  #length = 0;

  add(bytes: Buffer): void {
    this.#length += bytes.length;
    if (this.#length > MAX_KEPT_BYTES) this.#bytes = null;
    this.#bytes?.push(bytes);
  }

  text(): string | null {
    return this.#bytes && Buffer.concat(this.#bytes).toString("utf8");
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

function withoutOwn(headers: IncomingMessage["headers"]): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(([name]) => !OWN_HEADERS.includes(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? ""]));
}

function refuse(response: ServerResponse, cause: Error): void {
  const message = `The recorder cannot reach the server of the model: ${redactText(cause.message)}.`;
  const body = JSON.stringify({ error: { message, type: "server_error", param: null, code: "upstream_unreachable" } });
  response.writeHead(502, { "content-type": "application/json" }).end(body);
}
