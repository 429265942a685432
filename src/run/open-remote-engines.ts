/** Servers elsewhere that sample for a run. Each loads new weights from a folder of the run. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Seat } from "../generation/pool/seat.ts";
import { connectRemote, type RemoteEngine } from "../generation/remote/connect-remote.ts";
import { RemoteWeights } from "../generation/remote/remote-weights.ts";
import type { RetryOptions } from "../generation/remote/retry.ts";
import { servedRemote } from "../generation/remote/served-remote.ts";
import { createFileSync } from "../weight-sync/file-sync.ts";
import { type EngineParts, type OpenedEngines, openAll } from "./engine-parts.ts";
import type { RemoteServer, RunConfig } from "./run-config.ts";

/** One to two minutes in all: the time of a server that is restarted, with its model to load. */
const PATIENCE = { maxAttempts: 14 };

/** Where other servers can go on with a reply, one that does not answer is asked once more. */
const HASTE = { maxAttempts: 2 };

export async function openRemoteEngines(
  config: RunConfig,
  servers: readonly RemoteServer[],
  { runFolder, clock, report, log }: EngineParts,
): Promise<OpenedEngines> {
  const patience = servers.length > 1 ? HASTE : PATIENCE;
  const connections = await openAll(servers.map((server) => connect(config, server, patience)));
  const seats = await Promise.all(
    connections.map((connection, i) => openSeat(connection, { report, log, worker: `engine ${i + 1}` })),
  );
  const targets = connections.map(({ weights }, i) => ({
    loadWeights: async (folder: string, version: number) => {
      const seat = seats[i]!;
      if (seat.engine === null) weights.miss(folder, version);
      else await seat.give(() => weights.loadWeights(folder, version));
    },
  }));
  return {
    seats,
    places: connections.map(({ url }, i) => ({ name: `engine ${i + 1}`, runsIn: "server", device: url })),
    syncFrom: (trainer) => {
      const saveModel = (folder: string) => trainer.saveMerged(folder);
      return createFileSync({ saveModel, folder: join(runFolder, "weights"), targets, clock });
    },
    statements: connections.flatMap(({ url, remote }) => remote.missing.map((line) => `${url}: ${line}`)),
    close: async () => void (await Promise.all(connections.map((connection) => connection.close()))),
  };
}

interface Connection {
  /** As it may be shown. */
  readonly url: string;
  readonly remote: RemoteEngine;
  readonly weights: RemoteWeights;
  close(): Promise<void>;
}

async function connect(
  { rollout }: RunConfig,
  { kind, url, apiKey }: RemoteServer,
  patience: RetryOptions,
): Promise<Connection> {
  const server = { kind, url: url.reveal(), ...(apiKey !== null && { apiKey: apiKey.reveal() }) };
  // Of this process and not of the run: one that goes on from a checkpoint is new to the server.
  const weights = new RemoteWeights({ ...server, ...patience, run: randomUUID() });
  try {
    const remote = await connectRemote({ ...server, ...patience, weights });
    remote.expectTrainable(rollout.sampling);
    const close = async () => {
      weights.close();
      remote.close();
    };
    return { url: `${url}`, remote, weights, close };
  } catch (cause) {
    weights.close();
    throw cause;
  }
}

/** A server that was lost and answers again is given the weights that it has missed before it serves. */
function openSeat(
  { url, remote, weights }: Connection,
  told: Pick<EngineParts, "report" | "log"> & { readonly worker: string },
): Promise<Seat> {
  const open = async () => {
    if (weights.announced !== null) await weights.restore();
    return servedRemote(remote, weights);
  };
  return Seat.open({ name: `The engine at ${url}`, open, bringsWeights: true, ...told });
}
