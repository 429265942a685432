/** GET /health: whether the server answers, and what the engine is doing. Open to everyone. */
import type { FastifyInstance } from "fastify";
import type { ServerContext } from "./server-parts.ts";

export function addHealthRoute(app: FastifyInstance, { engine }: ServerContext): void {
  app.get("/health", async () => {
    const { version, isPaused, queuedRequests, runningRequests } = engine.status();
    return {
      status: isPaused ? "paused" : "ok",
      version,
      queued_requests: queuedRequests,
      running_requests: runningRequests,
    };
  });
}
