/**
 * Environments on other machines: servers of `reroll serve-environments` make, step and end episodes.
 *
 * An episode has a session at the server with the fewest. A call has a number, and may be asked twice: a reply that was lost on its way is
 * asked for again, and steps nothing. When a server is lost, or has lost the session, the episode moves to another one; others stay away from a
 * server that was lost until it answers, or a minute has passed.
 */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { address, secret } from "../../errors/secret.ts";
import type { Prompt } from "../../flow/prompt.ts";
import { isServiceLost, ServiceClient } from "../../services/service-client.ts";
import type { Shown } from "../env-host.ts";
import { type EnvPlace, makeMovingEnv } from "../moving-env.ts";
import type { EnvDefinition, EnvStep, EnvWords, Opening, Reply, TextEnv } from "../text-env.ts";

const options = z.strictObject({
  url: z
    .union([address(), z.array(address()).min(1)])
    .describe("Address of the server, or a list of addresses of servers that share the episodes."),
  env: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("Name of the environment in the run file that the servers were started with. null: the only one there."),
  apiKey: secret().nullable().default(null).describe("API key of the servers, sent as a bearer token."),
  timeoutSeconds: z
    .number()
    .positive()
    .default(300)
    .describe(
      "How long one attempt at a call of an episode may take. Words and prompts have at most 30 seconds. A server that gives no sign of life is given up after 20 seconds, whatever is said here.",
    ),
});

/** An episode that lost this many servers may be the cause, and does not look for another one. */
const MAX_MOVES = 3;

/** Servers that could not be reached in the first place are tried for longer than a call of the environment may take, which ends it before. */
const MAX_UNREACHED = 12;

/** How long one attempt at words or a prompt may take, which no episode has to be played for. */
const ASK_SECONDS = 30;

/** Answered at once, whatever the environments of a server are busy with. */
const SIGN_PATH = "/v1/environments";

/** A server, and how many episodes of this run live there. */
interface EnvServer {
  readonly client: ServiceClient;
  /** For words and prompts. */
  readonly asking: ServiceClient;
  load: number;
}

export const remoteEnv: EnvDefinition<typeof options> = {
  type: "remote",
  options,
  build: ({ url, env, apiKey, timeoutSeconds }) => {
    const servers = (Array.isArray(url) ? url : [url]).map((one): EnvServer => {
      const clientFor = (seconds: number) =>
        new ServiceClient({
          ...{ url: one.reveal(), apiKey: apiKey?.reveal() },
          ...{ timeoutMs: 1000 * seconds, signPath: SIGN_PATH },
        });
      return {
        client: clientFor(timeoutSeconds),
        asking: clientFor(Math.min(timeoutSeconds, ASK_SECONDS)),
        load: 0,
      };
    });
    // Where none answers, the one that was lost first: it has had the most time to come back.
    const pick = (lost: ReadonlySet<EnvServer>) => {
      const ranks = (one: EnvServer) => [lostAs(one), Number(lost.has(one)), one.load] as const;
      return servers.reduce((best, one) => (comesBefore(ranks(one), ranks(best)) ? one : best));
    };
    const askAny = async (method: "GET" | "POST", what: string, body?: unknown) => {
      const lost = new Set<EnvServer>();
      for (;;) {
        const server = pick(lost);
        try {
          return await server.asking.call(method, `/v1/environments/${env ?? "-"}/${what}`, body);
        } catch (cause) {
          if (!isServiceLost(cause) || lost.has(server)) throw cause;
          lost.add(server);
        }
      }
    };
    return {
      runsInThreads: true,
      makeEnv: (prompt, seed) => makeRemoteEnv({ env: env ?? "-", prompt, seed, pick }),
      fetchPrompt: async (seed) => (await askAny("POST", "prompts", { seed })) as Prompt,
      fetchWords: async () => (await askAny("GET", "words")) as EnvWords | null,
    };
  },
};

interface RemoteEpisode {
  readonly env: string;
  readonly prompt: Prompt;
  readonly seed: number;
  readonly pick: (lost: ReadonlySet<EnvServer>) => EnvServer;
}

/** Makes the environment at a server. */
function makeRemoteEnv(episode: RemoteEpisode): Promise<TextEnv> {
  const { env, prompt, seed, pick } = episode;
  const lost = new Set<EnvServer>();
  let [numMoves, numUnreached] = [0, 0];
  let isEntered = false;
  return makeMovingEnv({
    name: env,
    enter: async (signal) => {
      const server = pick(lost);
      // Until it turns out otherwise: an episode that loses it looks elsewhere first.
      lost.add(server);
      const place = new SessionPlace(server);
      isEntered = false;
      await place.open({ env, prompt, seed }, signal);
      isEntered = true;
      return place;
    },
    expectLoss: (cause) => {
      if (!isLost(cause)) throw cause;
      if (isEntered) numMoves++;
      else numUnreached++;
      if (numMoves > MAX_MOVES || numUnreached > MAX_UNREACHED) throw sessionLost(episode, numMoves, cause);
    },
  });
}

class SessionPlace implements EnvPlace {
  readonly #server: EnvServer;
  readonly #id = randomUUID();
  isThere = true;

  constructor(server: EnvServer) {
    this.#server = server;
    server.load++;
  }

  async open(episode: Omit<RemoteEpisode, "pick">, signal: AbortSignal): Promise<void> {
    try {
      await this.#call("/v1/sessions", { id: this.#id, ...episode }, signal);
    } catch (cause) {
      this.#forget();
      throw cause;
    }
  }

  async ask(number: number, reply: Reply | null, signal: AbortSignal): Promise<Shown<Opening | EnvStep>> {
    return (await this.#call(`/v1/sessions/${this.#id}/calls`, { number, reply }, signal)) as Shown<Opening | EnvStep>;
  }

  /** Counts until the server has answered: one that is hung would look idle when its episodes are given up. */
  async leave(): Promise<void> {
    if (!this.isThere) return;
    this.isThere = false;
    try {
      await this.#server.client.call("DELETE", `/v1/sessions/${this.#id}`);
    } catch (cause) {
      // With its server the session is gone as well: nothing is left to free.
      if (!isLost(cause)) throw cause;
    } finally {
      this.#server.load--;
    }
  }

  async #call(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    try {
      return await this.#server.client.call("POST", path, body, signal);
    } catch (cause) {
      if (isLost(cause)) this.#forget();
      throw cause;
    }
  }

  #forget(): void {
    if (!this.isThere) return;
    this.isThere = false;
    this.#server.load--;
  }
}

function lostAs({ client, asking }: EnvServer): number {
  return Math.max(client.lostAs, asking.lostAs);
}

/** By the first number that differs. */
function comesBefore(these: readonly number[], those: readonly number[]): boolean {
  const i = these.findIndex((value, at) => value !== those[at]);
  return i !== -1 && these[i]! < those[i]!;
}

function isLost(cause: unknown): boolean {
  return isServiceLost(cause) || (cause instanceof RerollError && cause.code === "ENV_SESSION_LOST");
}

function sessionLost({ env, prompt }: RemoteEpisode, numMoves: number, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new RerollError(
    "ENV_SESSION_LOST",
    `The episode of prompt "${prompt.id}" lost its session in the environment "${env}" ${numMoves} times, and there is no other server for it. The last one: ${reason}`,
    { env },
    { cause },
  );
}
