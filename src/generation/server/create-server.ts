/**
 * An OpenAI-compatible server in front of an engine.
 *
 * In: built parts. Out: a server to listen with, and the sessions that a trainer takes episodes from. The engine belongs
 * to the caller: closing the server ends its requests and leaves the engine as it is.
 */
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type FastifyInstance, type FastifyReply, fastify } from "fastify";
import { PromptEncoder } from "../../chat/prompt-encoder.ts";
import { ReplyIndex } from "../../chat/reply-index.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { createKeyCheck } from "../../services/bearer-key.ts";
import { isLoopback, type ListenAddress, listenError } from "../../services/listen-address.ts";
import { Calls } from "./calls.ts";
import { addChatCompletionsRoute } from "./chat-completions-route.ts";
import { addCompletionsRoute } from "./completions-route.ts";
import { addHealthRoute } from "./health-route.ts";
import { addJsonParser } from "./json-body.ts";
import { anthropicBody } from "./messages/anthropic-errors.ts";
import { addMessagesRoutes, isMessagesPath } from "./messages/messages-route.ts";
import { addMetricsRoute } from "./metrics-route.ts";
import { addModelsRoute } from "./models-route.ts";
import { errorReplyOf, isOwnFault, requestError } from "./openai-errors.ts";
import { addRefusedRoutes, collectMethods, refuseExpectation, unknownRoute } from "./refused-requests.ts";
import { ResponseStore } from "./responses/response-store.ts";
import { addResponsesRoutes } from "./responses/responses-route.ts";
import type { SamplingRules } from "./sampling-request.ts";
import { ServerMetrics } from "./server-metrics.ts";
import type { ServerContext, ServerOptions, ServerParts } from "./server-parts.ts";
import { addSessionRoutes } from "./session-routes.ts";
import { Sessions } from "./sessions.ts";
import { addWeightsRoute } from "./weights-route.ts";

export interface GenerationServer {
  readonly app: FastifyInstance;
  /** For the trainer in this process: `takeFinished` hands over the episodes that have ended. */
  readonly sessions: Sessions;
  /** Starts to listen and returns the base URL, such as http://127.0.0.1:8000. */
  listen(address?: ListenAddress): Promise<string>;
  /** Ends the requests that are running, and stops to listen. */
  close(): Promise<void>;
}

/** How often silent sessions are looked for. */
const SWEEP_MS = 5_000;

export function createServer(parts: ServerParts, options: ServerOptions = {}): GenerationServer {
  if (parts.weights !== undefined && options.apiKey === undefined) {
    throw new RerollError("INVALID_OPTION", "A server that loads weights on request needs an API key: set apiKey.");
  }
  const context = buildContext(parts, options);
  const app = createApp(context, options);
  const sweep = setInterval(() => context.sessions.endIdle(), SWEEP_MS).unref();
  return {
    app,
    sessions: context.sessions,
    listen: ({ host = "127.0.0.1", port = 0, allowWithoutKey = false } = {}) => {
      if (options.apiKey === undefined && !allowWithoutKey) refuseOpenHost(host);
      return app.listen({ host, port }).catch((cause: Error) => {
        throw listenError(cause, { host, port });
      });
    },
    async close() {
      clearInterval(sweep);
      context.calls.abortAll();
      await app.close();
    },
  };
}

function buildContext(parts: ServerParts, options: ServerOptions): ServerContext {
  const { maxInFlight = 1024, maxChoices = 128, stallTimeoutMs = 60_000, acceptsAnyModel = false } = options;
  return {
    ...parts,
    acceptsAnyModel,
    maxChoices: Math.min(maxChoices, parts.engine.status().maxQueuedRequests),
    samplingRules: buildRules(parts.tokenizer.stopIds, options),
    stallTimeoutMs,
    encoder: new PromptEncoder(parts.tokenizer),
    replies: new ReplyIndex(),
    responses: new ResponseStore(),
    // From the private use area, with an id that nobody can guess.
    mark: `\ue000${parts.newId()}\ue000`,
    sessions: new Sessions(parts.clock, options.sessions),
    metrics: new ServerMetrics(),
    served: { run: "" },
    calls: new Calls(parts.engine, maxInFlight),
  };
}

function buildRules(stopIds: readonly number[], options: ServerOptions): SamplingRules {
  const { samplingOverrides: overrides = {}, samplingFilters: filters = {}, onOverruled } = options;
  const told = new Set<string>();
  return {
    ...{ stopIds, overrides, filters },
    onOverruled(name, asked, used) {
      if (told.has(name)) return;
      told.add(name);
      const given = name === "max_tokens" ? `It gets at most ${used}` : `It is sampled with ${used}`;
      onOverruled?.(`A client asked for ${name} ${asked}. ${given} whatever clients ask for.`);
    },
  };
}

function createApp(context: ServerContext, options: ServerOptions): FastifyInstance {
  const { maxBodyBytes = 4 * 1024 * 1024, retryAfterSeconds = 1, apiKey } = options;
  const tell = (reply: FastifyReply, cause: unknown) => {
    const answer = errorReplyOf(cause, retryAfterSeconds);
    if (isOwnFault(answer)) context.onError(cause);
    const body = isMessagesPath(reply.request.url) ? anthropicBody(answer) : answer.body;
    void reply.code(answer.status).headers(answer.headers).send(body);
  };
  const app = fastify({
    bodyLimit: maxBodyBytes,
    forceCloseConnections: true,
    requestTimeout: 60_000,
    routerOptions: { maxParamLength: 256 },
    clientErrorHandler: refuseMalformed,
    // Paths that cannot be decoded never get to a route, nor to the handler of its errors.
    frameworkErrors: (cause, _request, reply) => tell(reply, requestError("url", `${cause.message}.`)),
  });
  app.removeContentTypeParser("text/plain");
  addJsonParser(app);
  addMetricsHook(app, context);
  if (apiKey === undefined) addHostHook(app);
  else addKeyHook(app, apiKey);
  app.setErrorHandler((cause, _request, reply) => {
    tell(reply, cause);
  });
  app.server.on("checkExpectation", refuseExpectation);
  const methodsOf = collectMethods(app);
  app.setNotFoundHandler(async ({ method, url }) => {
    throw unknownRoute(method, url, methodsOf(url));
  });
  addRoutes(app, context);
  return app;
}

function addRoutes(app: FastifyInstance, context: ServerContext): void {
  addCompletionRoutes(app, context);
  addModelsRoute(app, context);
  addSessionRoutes(app, context);
  addHealthRoute(app, context);
  addMetricsRoute(app, context);
  addWeightsRoute(app, context);
  // For agents of which only the base URL can be set: the session is part of it.
  app.register(
    async (scoped) => {
      addCompletionRoutes(scoped, context);
      addModelsRoute(scoped, context);
    },
    { prefix: "/sessions/:session" },
  );
}

function addCompletionRoutes(app: FastifyInstance, context: ServerContext): void {
  addChatCompletionsRoute(app, context);
  addCompletionsRoute(app, context);
  addResponsesRoutes(app, context);
  addMessagesRoutes(app, context);
  addRefusedRoutes(app);
}

function addMetricsHook(app: FastifyInstance, { metrics }: ServerContext): void {
  app.addHook("onRequest", async (request, reply) => {
    const route = request.routeOptions.url ?? "unknown";
    reply.raw.once("close", () => {
      const status = reply.raw.writableFinished ? reply.raw.statusCode : 499;
      metrics.requests.add(1, { route, status: String(status) });
    });
  });
}

function addKeyHook(app: FastifyInstance, apiKey: string): void {
  const checkKey = createKeyCheck(apiKey);
  app.addHook("onRequest", async (request) => {
    if (request.routeOptions.url !== "/health") checkKey(request.headers);
  });
}

/**
 * Without a key, only programs of this machine may ask. A page in this machine's browser may not: it can have its own
 * name point to 127.0.0.1, but not hide that name.
 */
function addHostHook(app: FastifyInstance): void {
  app.addHook("onRequest", async ({ socket, hostname }) => {
    // Browsers always name a host; simple probes do not.
    if (!isLoopback(socket.localAddress ?? "") || hostname === "" || isLoopback(hostname)) return;
    throw new RerollError(
      "HOST_REFUSED",
      `The host ${JSON.stringify(hostname.slice(0, 200))} is not a name of this machine. Ask for 127.0.0.1 or localhost, or start the server with an API key.`,
    );
  });
}

function refuseOpenHost(host: string): void {
  if (isLoopback(host)) return;
  throw new RerollError(
    "SERVER_UNPROTECTED",
    `The server would listen on ${host} for anyone. Set an API key, listen on 127.0.0.1, or set allowWithoutKey if the network is safe.`,
    { host },
  );
}

/** What is not even HTTP gets an answer in the same shape, where there is still someone to get it. */
function refuseMalformed(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, body } = errorReplyOf(malformedError(error), 1);
  const text = JSON.stringify(body);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
  );
}

function malformedError({ code, message }: Error & { code?: string }): RerollError {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return new RerollError("REQUEST_TIMEOUT", "The request did not arrive in time. Send it faster, or send less.");
  }
  if (code === "HPE_HEADER_OVERFLOW") {
    return new RerollError("HEADERS_TOO_LARGE", "The headers of the request are too large. Put data into the body.");
  }
  return new RerollError("INVALID_REQUEST", `The request is not valid HTTP: ${message}.`);
}
