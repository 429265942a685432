/** GET /metrics, for Prometheus. */
import type { FastifyInstance } from "fastify";
import type { ServerContext } from "./server-parts.ts";

export function addMetricsRoute(app: FastifyInstance, { engine, sessions, metrics, calls }: ServerContext): void {
  app.get("/metrics", async (_request, reply) => {
    reply.type("text/plain; version=0.0.4; charset=utf-8");
    return metrics.render(engine, sessions, calls.numInFlight);
  });
}
