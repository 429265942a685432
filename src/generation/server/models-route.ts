/** GET /v1/models and /v1/models/:model: the one model that is here. */
import type { FastifyInstance } from "fastify";
import { checkModel } from "./sampling-request.ts";
import type { ServerContext } from "./server-parts.ts";
import { pathParameter } from "./session-id.ts";

export function addModelsRoute(app: FastifyInstance, context: ServerContext): void {
  const created = Math.floor(context.clock() / 1000);
  const model = () => ({
    id: context.modelName,
    object: "model",
    created,
    owned_by: "reroll",
    // vLLM's name for the context length.
    max_model_len: context.engine.status().contextLength,
    version: context.engine.status().version,
  });
  app.get("/v1/models", async () => ({ object: "list", data: [model()] }));
  app.get("/v1/models/:model", async ({ params }) => {
    checkModel(pathParameter(params, "model"), context);
    return model();
  });
}
