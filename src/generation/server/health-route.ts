/** GET /health: whether tokens can be had, and what the engine is doing. Open to everyone; 503 when the engine has broken. */
import type { FastifyInstance } from "fastify";
import type { ServerContext } from "./server-parts.ts";

export function addHealthRoute(app: FastifyInstance, { engine, served }: ServerContext): void {
  app.get("/health", async (_, reply) => {
    const { version, isPaused, queuedRequests, runningRequests, brokenBy } = engine.status();
    if (brokenBy !== undefined) reply.code(503);
    return {
      status: brokenBy !== undefined ? "broken" : isPaused ? "paused" : "ok",
      version,
      run: served.run,
      queued_requests: queuedRequests,
      running_requests: runningRequests,
    };
  });
}
