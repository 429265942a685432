/** What an agent's harness does with a session: read it, post its reward, end it. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { Finish } from "../generate.ts";
import { tokenFields } from "./reply-format.ts";
import { numberBetween, readFields } from "./request-fields.ts";
import type { ServerContext } from "./server-parts.ts";
import { pathParameter } from "./session-id.ts";
import type { FinishedSession, SessionEnd, SessionRecord, SessionTurn } from "./session-record.ts";

export function addSessionRoutes(app: FastifyInstance, { sessions }: ServerContext): void {
  app.get("/v1/sessions/:id", async ({ params }) => {
    const found = sessions.read(idOf(params));
    return "finished" in found
      ? recordFields(found.finished, found.finished.end)
      : recordFields(found.session.record());
  });
  app.post("/v1/sessions/:id/reward", async ({ params, body }) => {
    const { reward, metadata = {} } = readFields(rewardSchema, body);
    return endFields(sessions.end(idOf(params), { kind: "rewarded", reward, metadata }));
  });
  app.delete("/v1/sessions/:id", async ({ params }) => endFields(sessions.end(idOf(params), { kind: "deleted" })));
}

/** It waits with its session for the trainer, together with thousands of others. */
const MAX_METADATA = 65_536;

const rewardSchema = z.object({
  reward: numberBetween("a finite number", -Number.MAX_VALUE),
  metadata: z
    .record(z.string(), z.unknown(), "an object")
    .refine((metadata) => JSON.stringify(metadata).length <= MAX_METADATA, `JSON of at most ${MAX_METADATA} characters`)
    .optional(),
});

function idOf(params: unknown): string {
  return pathParameter(params, "id") ?? "";
}

function endFields({ id, samples, end }: FinishedSession): object {
  const numTurns = samples.reduce((sum, { turns }) => sum + turns.length, 0);
  return { id, status: end.kind, num_samples: samples.length, num_turns: numTurns };
}

function recordFields({ id, samples, brokenTurns }: SessionRecord, end?: SessionEnd): object {
  return {
    id,
    status: end?.kind ?? "open",
    ...(end?.kind === "rewarded" && { reward: end.reward, metadata: end.metadata }),
    samples: samples.map(({ turns }) => ({ turns: turns.map(turnFields) })),
    broken_turns: brokenTurns.map(turnFields),
  };
}

function turnFields(turn: SessionTurn): object {
  return { prompt_token_ids: [...turn.promptIds], ...tokenFields(turn), finish: finishOf(turn.finish) };
}

function finishOf(finish: Finish): object {
  if (finish.kind !== "failed") return finish;
  return { kind: "failed", error: { code: finish.error.code, message: finish.error.message } };
}
