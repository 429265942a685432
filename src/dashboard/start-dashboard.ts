/**
 * The server of the dashboard: a page over the folders of runs, live while they go on.
 *
 * In: a folder of runs. Out: an address. It only reads, and only plain files of runs in that folder. It is for this machine unless a
 * token is given. Every failure is an answer with a code and a sentence; none ends the server.
 */

import type { FastifyInstance } from "fastify";
import { fastify } from "fastify";
import type { ErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { addAccessCheck, expectProtected } from "./access.ts";
import type { ErrorAnswer } from "./answers.ts";
import { EventStream } from "./event-stream.ts";
import { followRun } from "./live-run.ts";
import { addPage } from "./page-files.ts";
import { addRunRoutes } from "./run-routes.ts";
import { RunStore } from "./run-store.ts";
import { type OpenTokenizer, TokenTexts } from "./token-texts.ts";

/** Options of the dashboard: what it shows, and to whom. */
export interface DashboardOptions {
  /** The folder whose subfolders are runs. It need not exist yet. */
  readonly root: string;
  /** The host to listen on. Default 127.0.0.1. One that other machines can reach needs a token. */
  readonly host?: string;
  /** The port to listen on. Default 0: any free one. */
  readonly port?: number;
  readonly token?: string;
  /** Shows tokens as text; without it they are numbers. */
  readonly openTokenizer?: OpenTokenizer;
}

/** A dashboard that listens. */
export interface Dashboard {
  /** Address of the page, with the token where there is one. */
  readonly url: string;
  close(): Promise<void>;
}

/** Maximum number of pages that follow runs at the same time. */
const MAX_STREAMS = 64;

const STATUS: Readonly<Partial<Record<ErrorCode, number>>> = {
  RUN_NOT_FOUND: 404,
  TRAJECTORY_NOT_FOUND: 404,
  INVALID_OPTION: 400,
  KEY_INVALID: 401,
  HOST_REFUSED: 403,
  PATH_REFUSED: 403,
  FILE_TOO_LARGE: 413,
  TOO_MANY_PAGES: 503,
};

/** No script but our own runs, whatever a model wrote. */
const HEADERS = {
  "content-security-policy":
    "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; base-uri 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** Listens, or throws and says why not. */
export async function startDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { root, host = "127.0.0.1", port = 0, token, openTokenizer } = options;
  expectProtected(host, token);
  const app = fastify({ forceCloseConnections: true });
  const stop = new AbortController();
  const store = new RunStore(root);
  app.addHook("onSend", async (_, reply) => void reply.headers(HEADERS));
  addAccessCheck(app, token);
  addErrorAnswers(app);
  addPage(app);
  addRunRoutes(app, store, openTokenizer === undefined ? null : new TokenTexts(openTokenizer));
  addEvents(app, store, stop.signal);
  const address = await app.listen({ host, port });
  return {
    url: `${address}/${token === undefined ? "" : `?token=${token}`}`,
    close: async () => {
      stop.abort();
      await app.close();
    },
  };
}

function addEvents(app: FastifyInstance, store: RunStore, signal: AbortSignal): void {
  let numStreams = 0;
  app.get<{ Params: { run: string } }>("/api/runs/:run/events", async ({ params, headers }, reply) => {
    if (numStreams >= MAX_STREAMS) {
      throw new RerollError("TOO_MANY_PAGES", `${MAX_STREAMS} pages follow runs already. Close some of them.`);
    }
    await store.open(params.run);
    const fromByte = Number.parseInt(String(headers["last-event-id"]), 10);
    reply.hijack();
    numStreams++;
    const stream = new EventStream(reply.raw, HEADERS);
    await followRun(store, params.run, stream, {
      fromByte: Number.isNaN(fromByte) ? undefined : fromByte,
      signal,
    }).finally(() => {
      numStreams--;
      stream.end();
    });
  });
}

function addErrorAnswers(app: FastifyInstance): void {
  app.setNotFoundHandler(async (_, reply) =>
    reply.status(404).send(answerOf("NOT_FOUND", "There is nothing at this address.")),
  );
  app.setErrorHandler<Error & { statusCode?: number }>(async (error, _, reply) => {
    if (error instanceof RerollError) {
      return reply.status(STATUS[error.code] ?? 500).send(answerOf(error.code, error.message));
    }
    return reply
      .status(error.statusCode ?? 500)
      .send(answerOf("FAILED", `The dashboard could not answer: ${error.message}`));
  });
}

function answerOf(code: string, message: string): ErrorAnswer {
  return { error: { code, message } };
}
