/**
 * Environments on other machines: servers of `reroll serve-environments` make, step and end episodes.
 *
 * An episode has a session at the server with the fewest. A call has a number, and may be asked twice: a reply that was lost on its way is
 * asked for again, and steps nothing. When a server is lost, or has lost the session, the episode is made again elsewhere from the same prompt
 * and seed, and is given the same replies; one that then does otherwise fails, and is told by name.
 */
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { address, secret } from "../../errors/secret.ts";
import type { Prompt } from "../../flow/prompt.ts";
import { isServiceLost, ServiceClient } from "../../services/service-client.ts";
import type { Shown } from "../env-host.ts";
import type { EnvDefinition, EnvStep, Opening, Reply, TextEnv } from "../text-env.ts";

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
  timeoutSeconds: z.number().positive().default(300).describe("How long one attempt at a call may take."),
});

/** An episode that lost this many servers does not look for another one. */
const MAX_MOVES = 3;

/** A server, and how many episodes of this run live there. */
interface EnvServer {
  readonly client: ServiceClient;
  load: number;
}

export const remoteEnv: EnvDefinition<typeof options> = {
  type: "remote",
  options,
  build: ({ url, env, apiKey, timeoutSeconds }) => {
    const servers = (Array.isArray(url) ? url : [url]).map(
      (one): EnvServer => ({
        client: new ServiceClient({ url: one.reveal(), apiKey: apiKey?.reveal(), timeoutMs: 1000 * timeoutSeconds }),
        load: 0,
      }),
    );
    const pick = (lost: ReadonlySet<EnvServer>) =>
      servers
        .filter((one) => !lost.has(one) || lost.size === servers.length)
        .reduce((best, one) => (one.load < best.load ? one : best));
    return {
      runsInThreads: true,
      makeEnv: async (prompt, seed) => {
        const made = new RemoteEnv({ env: env ?? "-", prompt, seed, pick });
        await made.make();
        return made;
      },
      fetchPrompt: async (seed) => {
        const lost = new Set<EnvServer>();
        for (;;) {
          const server = pick(lost);
          try {
            return (await server.client.call("POST", `/v1/environments/${env ?? "-"}/prompts`, { seed })) as Prompt;
          } catch (cause) {
            if (!isServiceLost(cause) || lost.has(server)) throw cause;
            lost.add(server);
          }
        }
      },
    };
  },
};

interface RemoteEpisode {
  readonly env: string;
  readonly prompt: Prompt;
  readonly seed: number;
  readonly pick: (lost: ReadonlySet<EnvServer>) => EnvServer;
}

/** A call that was answered: the opening, or a reply and what came of it. */
interface Played {
  readonly reply: Reply | null;
  readonly answer: Opening | EnvStep;
}

interface Session {
  readonly server: EnvServer;
  readonly id: string;
}

class RemoteEnv implements TextEnv {
  readonly #episode: RemoteEpisode;
  readonly #played: Played[] = [];
  readonly #lost = new Set<EnvServer>();
  #session: Session | null = null;
  #numMoves = 0;
  #picture = "";

  constructor(episode: RemoteEpisode) {
    this.#episode = episode;
  }

  make(): Promise<void> {
    return this.#lasting(async () => {});
  }

  async start(signal: AbortSignal): Promise<Opening> {
    return (await this.#play(null, signal)) as Opening;
  }

  async step(reply: Reply, signal: AbortSignal): Promise<EnvStep> {
    return (await this.#play(reply, signal)) as EnvStep;
  }

  render(): string {
    return this.#picture;
  }

  async end(): Promise<void> {
    const session = this.#session;
    this.#leave();
    try {
      await session?.server.client.call("DELETE", `/v1/sessions/${session.id}`);
    } catch (cause) {
      // With its server the session is gone as well: nothing is left to free.
      if (!isLost(cause)) throw cause;
    }
  }

  async #play(reply: Reply | null, signal: AbortSignal): Promise<Opening | EnvStep> {
    const number = this.#played.length;
    const answer = await this.#lasting((session) => this.#ask(session, number, reply, signal), signal);
    this.#played.push({ reply, answer });
    return answer;
  }

  /** Does something in the session of the episode, and in a new one where that is lost. */
  async #lasting<Answer>(work: (session: Session) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    for (;;) {
      try {
        return await work(this.#session ?? (await this.#move(signal)));
      } catch (cause) {
        if (signal?.aborted || !isLost(cause)) throw cause;
        this.#leave();
        if (++this.#numMoves > MAX_MOVES) throw sessionLost(this.#episode, cause);
      }
    }
  }

  /** Makes the episode at a server, and plays it to where it was. */
  async #move(signal: AbortSignal | undefined): Promise<Session> {
    const { env, prompt, seed, pick } = this.#episode;
    const session: Session = { server: pick(this.#lost), id: randomUUID() };
    session.server.load++;
    this.#session = session;
    await session.server.client.call("POST", "/v1/sessions", { id: session.id, env, prompt, seed }, signal);
    for (const [number, { reply, answer }] of this.#played.entries()) {
      const again = await this.#ask(session, number, reply, signal);
      if (!isDeepStrictEqual(again, answer)) throw notTheSame(this.#episode, session.server.client.url);
    }
    return session;
  }

  #leave(): void {
    if (this.#session === null) return;
    this.#session.server.load--;
    this.#lost.add(this.#session.server);
    this.#session = null;
  }

  async #ask(
    { server, id }: Session,
    number: number,
    reply: Reply | null,
    signal: AbortSignal | undefined,
  ): Promise<Opening | EnvStep> {
    const path = `/v1/sessions/${id}/calls`;
    const { answer, picture } = (await server.client.call("POST", path, { number, reply }, signal)) as Shown<
      Opening | EnvStep
    >;
    this.#picture = picture ?? this.#picture;
    return answer;
  }
}

function isLost(cause: unknown): boolean {
  return isServiceLost(cause) || (cause instanceof RerollError && cause.code === "ENV_SESSION_LOST");
}

function sessionLost({ env, prompt }: RemoteEpisode, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new RerollError(
    "ENV_SESSION_LOST",
    `The episode of prompt "${prompt.id}" lost its session in the environment "${env}" ${MAX_MOVES + 1} times. The last time: ${reason}`,
    { env },
    { cause },
  );
}

function notTheSame({ env }: RemoteEpisode, url: string): RerollError {
  return new RerollError(
    "ENV_SESSION_LOST",
    `Env "${env}" lost its session, and did otherwise when ${url} played it again with the same seed and replies. ` +
      "Draw all chance from the seed that makeEnv is given.",
    { env, url },
  );
}
