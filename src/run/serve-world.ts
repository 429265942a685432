/** The environments and rewards of a run file behind an address, for runs on other machines. */
import { z } from "zod";
import { EnvSessions } from "../envs/remote/env-sessions.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { RewardInput } from "../rewards/reward.ts";
import { type RunningService, type ServiceRoute, startService } from "../services/start-service.ts";
import { buildWorld, type RunWorld } from "./build-rollout.ts";
import type { RunConfig } from "./run-config.ts";

interface ServeWorldOptions {
  readonly host: string;
  readonly port: number;
  readonly apiKey?: string | undefined;
  /** How long an episode is kept that nobody asks anything of. */
  readonly idleMs: number;
  readonly clock: Clock;
  /** The module that the config comes from, for environments and rewards of its own. */
  readonly runFile?: string;
}

const session = z.object({
  id: z.string().min(1).max(128),
  env: z.string(),
  prompt: z.looseObject({}),
  seed: z.number(),
});
const call = z.object({
  number: z.int().min(0),
  reply: z.object({ text: z.string(), isCut: z.boolean() }).nullable(),
});

export async function serveWorld(config: RunConfig, options: ServeWorldOptions): Promise<RunningService> {
  const { host, port, apiKey, idleMs, clock, runFile } = options;
  if (Object.keys(config.envs).length + Object.keys(config.rewards).length === 0)
    throw new RerollError(
      "INVALID_OPTION",
      "envs and rewards are both empty: there is nothing to serve. Name a run file that has an environment or a reward.",
    );
  const world = await buildWorld(config, clock, { ...(runFile !== undefined && { runFile }) });
  const sessions = new EnvSessions({ makeEnv: world.makeEnv, idleMs, clock });
  const service = await startService(routesOf(world, sessions), { host, port, apiKey });
  return {
    url: service.url,
    close: async () => {
      await service.close();
      await sessions.close();
      await world.close();
    },
  };
}

function routesOf(world: RunWorld, sessions: EnvSessions): readonly ServiceRoute[] {
  const names = Object.keys(world.envs);
  return [
    {
      ...{ method: "GET", path: "/v1/environments" },
      handle: () => ({ environments: names, scores: world.scorer !== null, sessions: sessions.size }),
    },
    {
      ...{ method: "POST", path: "/v1/environments/:env/prompts" },
      handle: async ({ env = "" }, body) => {
        const domain = nameOf(env, names);
        const makePrompt = world.prompts[domain]?.makePrompt;
        if (makePrompt === undefined)
          throw invalid(`The environment "${domain}" makes no prompts: they come from data.`);
        return makePrompt(expectBody(z.object({ seed: z.int() }), body).seed);
      },
    },
    {
      ...{ method: "GET", path: "/v1/environments/:env/words" },
      handle: async ({ env = "" }) => {
        const { words, fetchWords } = world.envs[nameOf(env, names)]!;
        return words ?? (await fetchWords?.()) ?? null;
      },
    },
    {
      ...{ method: "POST", path: "/v1/sessions" },
      handle: async (_, body) => {
        const { id, env, prompt, seed } = expectBody(session, body);
        await sessions.open(id, { ...(prompt as unknown as Prompt), domain: nameOf(env, names) }, seed);
        return {};
      },
    },
    {
      ...{ method: "POST", path: "/v1/sessions/:id/calls" },
      handle: ({ id = "" }, body) => {
        const { number, reply } = expectBody(call, body);
        return sessions.call(id, number, reply);
      },
    },
    {
      ...{ method: "DELETE", path: "/v1/sessions/:id" },
      handle: async ({ id = "" }) => {
        await sessions.end(id);
        return {};
      },
    },
    {
      ...{ method: "POST", path: "/v1/scores" },
      handle: async (_, body) => {
        if (world.scorer === null) throw invalid("The run file of this server has no rewards.");
        const outcome = await world.scorer.score(body as RewardInput, new AbortController().signal);
        if (outcome.kind === "failed") throw outcome.error;
        const { score: value, parts, explanation } = outcome;
        return { value, parts, explanation };
      },
    },
  ];
}

/** "-" is the only environment there is. */
function nameOf(given: string, names: readonly string[]): string {
  const name = given === "-" && names.length === 1 ? names[0]! : given;
  if (names.includes(name)) return name;
  const wanted = given === "-" ? "none was named" : `"${given}" was asked for`;
  throw invalid(
    `This server has the environments ${names.map((one) => `"${one}"`).join(", ") || "(none)"}, and ${wanted}.`,
  );
}

function expectBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw invalid(`The call is not valid: ${z.prettifyError(parsed.error)}`);
}

function invalid(message: string): RerollError {
  return new RerollError("INVALID_REQUEST", message);
}
