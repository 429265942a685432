/** An agent of one's own as the player of episodes: a server on this machine that it talks to, over the run's engine. */
import { randomUUID } from "node:crypto";
import { ChatFormat } from "../chat/conversation.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import type { Clock } from "../flow/clock.ts";
import type { ServedEngine } from "../generation/engine.ts";
import type { RunAgent } from "../rollout/agent-call.ts";
import { createAgentEpisodes } from "../rollout/agent-episode.ts";
import type { RunEpisode } from "../rollout/episode.ts";
import type { RunWorld } from "./build-rollout.ts";
import type { PastVersions } from "./past-versions.ts";
import { pastIntervals } from "./player-options.ts";
import type { RunConfig } from "./run-config.ts";

interface AgentParts {
  readonly engine: ServedEngine;
  /** Where past players are served. Absent: all play with the same weights, as where no run trains them. */
  readonly past?: Pick<PastVersions, "engineOf">;
  readonly tokenizer: Tokenizer;
  readonly world: RunWorld;
  readonly clock: Clock;
  /** Told of failures that are the server's own. */
  readonly onError: (cause: unknown) => void;
  /** Told once of what agents ask for and do not get. */
  readonly onOverruled: (message: string) => void;
}

interface OpenedAgent {
  /**
   * Episodes at a temperature. It overrules what the agent asks for, since the trainer computes log-probs at one temperature for all.
   * Filters, penalties and bias are the agent's own: they are not in the log-probs that training compares.
   */
  readonly episodesAt: (temperature: number) => RunEpisode;
  close(): Promise<void>;
}

/**
 * Starts a server for each temperature: that of training, that of validation, and 0 for greedy baselines. Past versions have servers of
 * their own.
 */
export async function openAgent(config: RunConfig, runAgent: RunAgent, parts: AgentParts): Promise<OpenedAgent> {
  const { engine, past, tokenizer, world, clock, onError, onOverruled } = parts;
  // Most runs have no agent, and a server is much to load.
  const { createServer } = await import("../generation/server/create-server.ts");
  const { sampling, limits, context, maxInFlight, maxTurns } = config.rollout;
  const newId = () => randomUUID();
  const serverParts = { tokenizer, modelName: config.name, clock: Date.now, newId, onError };
  const serversOf = (served: ServedEngine) => async (temperature: number) => {
    const { topK, topP, minP, maxTokens } = sampling;
    const server = createServer(
      { ...serverParts, engine: served },
      {
        maxInFlight: 2 * maxInFlight,
        samplingOverrides: { temperature, maxTokens },
        samplingFilters: { topK, topP, minP },
        sessions: { maxTurns },
        acceptsAnyModel: true,
        onOverruled,
      },
    );
    return [temperature, { server, url: await server.listen() }] as const;
  };
  const temperatures = [...new Set([sampling.temperature, config.validation?.temperature ?? 0, 0])];
  const engines: readonly ServedEngine[] = [
    engine,
    ...pastIntervals(config.players).flatMap((every) => past?.engineOf(every) ?? []),
  ];
  const servers = new Map(
    await Promise.all(
      engines.map(async (one) => [one, new Map(await Promise.all(temperatures.map(serversOf(one))))] as const),
    ),
  );
  const serverAt = (temperature: number, served: ServedEngine = engine) => servers.get(served)!.get(temperature)!;
  const { scorer } = world;
  const playersAt = (temperature: number) =>
    Object.fromEntries(
      Object.entries(config.players).map(([name, player]) => {
        const served = player.type === "past" ? past?.engineOf(player.every) : engine;
        return [name, { ...serverAt(temperature, served), isTrained: player.type === "trained" }];
      }),
    );
  return {
    episodesAt: (temperature) =>
      createAgentEpisodes({
        ...serverAt(temperature),
        ...(Object.keys(config.players).length > 0 && { players: playersAt(temperature) }),
        runAgent,
        modelName: config.name,
        ...(scorer !== null && { score: scorer.score }),
        format: new ChatFormat(tokenizer, { context }),
        limits: { episodeMs: 1000 * limits.episodeSeconds, rewardMs: 1000 * limits.rewardSeconds },
        newId,
        clock,
      }),
    close: async () => {
      const all = [...servers.values()].flatMap((byTemperature) => [...byTemperature.values()]);
      await Promise.all(all.map(({ server }) => server.close()));
    },
  };
}
