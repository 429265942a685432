/** An agent of one's own as the player of episodes: a server on this machine that it talks to, over the run's engine. */
import { randomUUID } from "node:crypto";
import { ChatFormat } from "../chat/conversation.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import { createServer } from "../generation/server/create-server.ts";
import { createAgentEpisodes, type RunAgent } from "../rollout/agent-episode.ts";
import type { RunEpisode } from "../rollout/episode.ts";
import type { RunWorld } from "./build-rollout.ts";
import type { RunEngine } from "./open-engine.ts";
import type { RunConfig } from "./run-config.ts";

interface AgentParts {
  readonly engine: RunEngine;
  readonly tokenizer: Tokenizer;
  readonly world: RunWorld;
  readonly clock: Clock;
  /** Told of failures that are the server's own. */
  readonly onError: (cause: unknown) => void;
}

interface OpenedAgent {
  /** Episodes at a temperature: what the agent asks for is overruled, since log-probs must be of one distribution. */
  readonly episodesAt: (temperature: number) => RunEpisode;
  close(): Promise<void>;
}

/** Starts the servers: one for training and one for validation, whose temperatures differ. */
export async function openAgent(config: RunConfig, runAgent: RunAgent, parts: AgentParts): Promise<OpenedAgent> {
  const { engine, tokenizer, world, clock, onError } = parts;
  if (engine.local === null) {
    throw new RerollError("INVALID_OPTION", "agent needs the engine of the run itself: leave engine.remote out.");
  }
  const { sampling, limits, context } = config.rollout;
  const newId = () => randomUUID();
  const serverParts = { engine: engine.local, tokenizer, modelName: config.name, clock: Date.now, newId, onError };
  const temperatures = [...new Set([sampling.temperature, config.validation?.temperature ?? 0])];
  const servers = new Map(
    await Promise.all(
      temperatures.map(async (temperature) => {
        const { topK, topP, minP } = sampling;
        const samplingOverrides = { temperature, topK, topP, minP };
        const server = createServer(serverParts, { maxInFlight: 2 * config.rollout.maxInFlight, samplingOverrides });
        return [temperature, { server, url: await server.listen() }] as const;
      }),
    ),
  );
  const { scorer } = world;
  return {
    episodesAt: (temperature) =>
      createAgentEpisodes({
        ...servers.get(temperature)!,
        runAgent,
        ...(scorer !== null && { score: scorer.score }),
        format: new ChatFormat(tokenizer, { context }),
        limits: { episodeMs: 1000 * limits.episodeSeconds, rewardMs: 1000 * limits.rewardSeconds },
        newId,
        clock,
      }),
    close: async () => {
      await Promise.all([...servers.values()].map(({ server }) => server.close()));
    },
  };
}
