/**
 * Who may use the dashboard.
 *
 * Without a token: programs on this machine that address it by one of its own names, so that no web page can point a
 * name of its own here. With a token: whoever sends it, as a bearer token or once in the address, after which a cookie
 * holds it.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { RerollError } from "../errors/reroll-error.ts";

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i;
const COOKIE = "reroll_dashboard";

/** Whether a host can be reached only from this machine. */
function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

/** Throws where others could read runs without a token. */
export function expectProtected(host: string, token: string | undefined): void {
  if (token !== undefined && !/^[\w.~-]{8,}$/.test(token)) {
    throw new RerollError(
      "INVALID_OPTION",
      `--token has ${token.length} characters. It takes 8 or more letters, digits and . _ ~ -, so that it fits into an address.`,
    );
  }
  if (token !== undefined || isLoopback(host)) return;
  throw new RerollError(
    "SERVER_UNPROTECTED",
    `--host ${host} lets anyone who reaches this machine read all runs. Add --token <token>, or leave --host out to show them on this machine only.`,
    { host },
  );
}

/** Refuses every request that may not be answered. */
export function addAccessCheck(app: FastifyInstance, token: string | undefined): void {
  if (token === undefined) {
    app.addHook("onRequest", async ({ hostname }) => {
      if (isLoopback(hostname)) return;
      throw new RerollError(
        "HOST_REFUSED",
        `This dashboard is for this machine, and was asked for as ${hostname}. Use 127.0.0.1 or localhost, or start it with --token.`,
      );
    });
    return;
  }
  const expected = digest(token);
  const isToken = (given: string | undefined) => given !== undefined && timingSafeEqual(digest(given), expected);
  app.addHook("onRequest", async (request, reply) => {
    const inAddress = (request.query as { token?: unknown }).token;
    if (typeof inAddress === "string" && isToken(inAddress)) return keepToken(request, reply, inAddress);
    if (isToken(bearerOf(request)) || isToken(cookieOf(request))) return;
    throw new RerollError("KEY_INVALID", "Open the address that the dashboard printed: it ends with ?token=....");
  });
}

/** Redirects to the address without the token, where it would be seen and copied. */
function keepToken(request: FastifyRequest, reply: FastifyReply, token: string): FastifyReply | undefined {
  reply.header("set-cookie", `${COOKIE}=${token}; HttpOnly; SameSite=Strict; Path=/`);
  return request.url.startsWith("/?") ? reply.redirect("/") : undefined;
}

function bearerOf({ headers }: FastifyRequest): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? "")?.[1];
}

function cookieOf({ headers }: FastifyRequest): string | undefined {
  return new RegExp(`(?:^|; *)${COOKIE}=([^;]+)`).exec(headers.cookie ?? "")?.[1];
}

/** Digests have one length, so the comparison tells nothing about the token's. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
