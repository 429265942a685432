/**
 * POST /v1/weights: loads new weights from a folder that the server was told to trust, for a trainer in another
 * process.
 */
import { realpath } from "node:fs/promises";
import { sep } from "node:path";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { requestError } from "./openai-errors.ts";
import { readFields, text, wholeNumber } from "./request-fields.ts";
import type { ServerContext, WeightLoading } from "./server-parts.ts";

const weightsSchema = z.object({ path: text, version: wholeNumber("a whole number of at least 0", 0) });

/** The route exists only where the server was given what loads weights. */
export function addWeightsRoute(app: FastifyInstance, { weights, engine }: ServerContext): void {
  if (weights === undefined) return;
  app.post("/v1/weights", async ({ body }) => {
    const { path, version } = readFields(weightsSchema, body);
    await weights.load(await folderInside(weights, path), version);
    return { version: engine.status().version };
  });
}

/** Links are followed first, so that none leads out of the root. */
async function folderInside({ root }: WeightLoading, path: string): Promise<string> {
  const [inside, folder] = await Promise.all([realpath(root), realpath(path).catch(() => undefined)]);
  if (folder?.startsWith(inside + sep)) return folder;
  throw requestError("path", `path must be a folder under ${inside}: got ${JSON.stringify(path.slice(0, 200))}.`);
}
