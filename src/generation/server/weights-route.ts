/**
 * POST /v1/weights: loads new weights from a folder that the server was told to trust, for a trainer in another
 * process.
 *
 * Versions are counted per run, and a trainer says which run it is. A run that the server has not served yet may start at any
 * version; replies under way for the run before are ended first, so that none has tokens of two runs. The run before is over for this
 * server: it cannot take it back. Every reply names the run in `x-reroll-run`. A server that starts again knows no run and names none, which is how a
 * trainer notices.
 */
import { realpath } from "node:fs/promises";
import { sep } from "node:path";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { requestError } from "./openai-errors.ts";
import { readFields, text, wholeNumber } from "./request-fields.ts";
import type { ServerContext, WeightLoading } from "./server-parts.ts";

const RUN_WORDS = "a name of up to 128 letters, digits, dashes and underscores";

const weightsSchema = z.object({
  path: text,
  version: wholeNumber("a whole number of at least 0", 0),
  run: z.custom<string>((value) => typeof value === "string" && /^[\w-]{1,128}$/.test(value), RUN_WORDS).optional(),
  /** Whether the run has given this server nothing yet, and may take it over from another one. */
  begins: z.boolean().default(true),
});

/** The route exists only where the server was given what loads weights. */
export function addWeightsRoute(app: FastifyInstance, { weights, engine, served }: ServerContext): void {
  if (weights === undefined) return;
  const change = async (folder: string, version: number, run: string, begins: boolean) => {
    const { version: current } = engine.status();
    if (run !== served.run) {
      if (!begins && served.run !== "") {
        throw new RerollError("REMOTE_TAKEN", "Another run has given this server its weights since.", { run });
      }
      served.run = "";
      await engine.abortAll();
    } else if (version < current) {
      throw requestError(
        "version",
        `version must be at least ${current}, which this run has published: got ${version}.`,
      );
    }
    await weights.load(folder, version);
    // Requests that came while the weights were loading began with those of the run before.
    if (run !== served.run) await engine.abortAll();
    served.run = run;
    return { version, run };
  };
  let last: Promise<unknown> = Promise.resolve();
  app.post("/v1/weights", async ({ body }) => {
    const { path, version, run = "unnamed", begins } = readFields(weightsSchema, body);
    const folder = await folderInside(weights, path);
    const changed = last.then(() => change(folder, version, run, begins));
    last = changed.catch(() => {});
    return changed;
  });
}

/** Links are followed first, so that none leads out of the root. */
async function folderInside({ root }: WeightLoading, path: string): Promise<string> {
  const [inside, folder] = await Promise.all([realpath(root), realpath(path).catch(() => undefined)]);
  if (folder?.startsWith(inside + sep)) return folder;
  throw requestError("path", `path must be a folder under ${inside}: got ${JSON.stringify(path.slice(0, 200))}.`);
}
