/** Servers elsewhere that sample for a run, and how they get new weights. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { Seat } from "../generation/pool/seat.ts";
import { connectRemote, type RemoteEngine } from "../generation/remote/connect-remote.ts";
import { dialectOf, type RemoteKind } from "../generation/remote/dialects.ts";
import { HttpClient } from "../generation/remote/http-client.ts";
import { type GivenWeights, RemoteWeights } from "../generation/remote/remote-weights.ts";
import type { RetryOptions } from "../generation/remote/retry.ts";
import { servedRemote } from "../generation/remote/served-remote.ts";
import { createFileSync } from "../weight-sync/file-sync.ts";
import { type EngineParts, type OpenedEngines, openAll } from "./engine-parts.ts";
import type { SendingOptions } from "./remote-options.ts";
import type { RemoteServer, RunConfig } from "./run-config.ts";
import { SameGpu } from "./same-gpu.ts";
import { SentWeights, sendingSync, type Transport } from "./sent-weights.ts";
import { ServerGroup } from "./server-group.ts";

/** One to two minutes in all: the time of a server that is restarted, with its model to load. */
const PATIENCE = { maxAttempts: 14 };

/** Where other servers can go on with a reply, one that does not answer is asked once more. */
const HASTE = { maxAttempts: 2 };

/** How long a server that does not answer yet is waited for at the start. */
const START_MS = 120_000;

/** How long a server may take to receive all weights. */
const RECEIVE_MS = 600_000;

export async function openRemoteEngines(
  config: RunConfig,
  servers: readonly RemoteServer[],
  parts: EngineParts,
): Promise<OpenedEngines> {
  const patience = servers.length > 1 ? HASTE : PATIENCE;
  const { weights } = config.engine.remote!;
  const opened =
    weights.type === "broadcast" || weights.type === "same-gpu"
      ? await openSending(config, servers, parts, { patience, weights })
      : await openFromFiles(config, servers, parts, { patience, way: weights.type });
  return withMemory(opened, servers);
}

/** Servers that are asked to sleep give up what their weights do not need, and take it again before they get new ones. */
function withMemory(opened: OpenedEngines, servers: readonly RemoteServer[]): OpenedEngines {
  const lines = servers.map((server) => ({
    http: new HttpClient({ ...placeOf(server), timeoutMs: RECEIVE_MS, maxConnections: 1 }),
    memory: dialectOf(server.kind).weights?.memory,
  }));
  const { seats } = opened;
  let areAsleep = false;
  const all = (ask: "release" | "resume") =>
    Promise.all(seats.map((seat, i) => seat.ask(async () => lines[i]!.memory?.[ask](lines[i]!.http))));
  return {
    ...opened,
    syncFrom: (trainer) => {
      const sync = opened.syncFrom(trainer);
      return {
        publish: async (version) => {
          if (areAsleep) await all("resume");
          areAsleep = false;
          return sync.publish(version);
        },
        // A server that has started again is awake, and so are the others between a publication and the next rest.
        catchUp: async (version) => sync.catchUp?.(version),
      };
    },
    rest: async (sleeps) => {
      if (!sleeps) return;
      await all("release");
      areAsleep = true;
    },
    close: async () => {
      for (const { http } of lines) http.close();
      await opened.close?.();
    },
  };
}

/** Servers that load every version from a folder of the run. */
async function openFromFiles(
  config: RunConfig,
  servers: readonly RemoteServer[],
  { runFolder, clock, report, log, asked }: EngineParts,
  { patience, way }: { readonly patience: RetryOptions; readonly way: "files" | "adapters" },
): Promise<OpenedEngines> {
  const connections = await openAll(
    servers.map(async (server) => {
      // Of this process and not of the run: one that goes on from a checkpoint is new to the server.
      const place = { ...placeOf(server), ...patience, ...(asked !== undefined && { asked }) };
      const weights = new RemoteWeights({ ...place, run: randomUUID(), way });
      return connect(config, server, { ...patience, report }, weights, () => weights.check());
    }),
  );
  const seats = await Promise.all(
    connections.map(({ url, remote, weights }, i) => {
      // A server that was lost and answers again is given the weights that it has missed before it serves.
      const open = async () => {
        if (weights.announced !== null) await weights.restore();
        return servedRemote(remote, weights);
      };
      return Seat.open({ ...seatOf(url, i), open, bringsWeights: true, report, log });
    }),
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
    places: connections.map(placeOfServer),
    syncFrom: (trainer) => {
      const saveModel = async (folder: string) => {
        await (way === "adapters" ? trainer.saveModel(folder) : trainer.saveMerged(folder));
      };
      return createFileSync({ saveModel, folder: join(runFolder, "weights"), targets, clock, holds: way });
    },
    statements: connections.flatMap(statementsOf),
    close: async () => void (await Promise.all(connections.map((connection) => connection.close()))),
  };
}

/** Servers that are handed every version while the trainer lends it. */
async function openSending(
  config: RunConfig,
  servers: readonly RemoteServer[],
  { clock, report, placement, log }: EngineParts,
  { patience, weights: options }: { readonly patience: RetryOptions; readonly weights: SendingOptions },
): Promise<OpenedEngines> {
  const { kind } = config.engine.remote!;
  const routes = dialectOf(kind).weights!;
  const transport = openTransport(options, { kind, device: placement.trainerDevices[0] ?? "cpu" });
  const connections = await openAll(
    servers.map(async (server) => {
      const http = new HttpClient({ ...placeOf(server), timeoutMs: RECEIVE_MS, maxConnections: 2 });
      const weights = Object.assign(new SentWeights(randomUUID(), http.url), { http });
      const check = async () => routes.check?.(http, options.type);
      return connect(config, server, { ...patience, report }, weights, check).catch((cause: unknown) => {
        http.close();
        throw cause;
      });
    }),
  );
  const seats = await Promise.all(
    connections.map(({ url, remote, weights }, i) => {
      const open = async () => {
        await dialectOf(kind).readFacts(weights.http, undefined);
        // One that has started again knows nothing of what it was asked before.
        if (weights.announced !== null) await routes.check?.(weights.http, options.type);
        return servedRemote(remote, weights);
      };
      return Seat.open({ ...seatOf(url, i), open, bringsWeights: false, report, log });
    }),
  );
  const lines = connections.map(({ weights }, i) => ({ http: weights.http, routes, seat: seats[i]!, weights }));
  return {
    seats,
    places: connections.map(placeOfServer),
    syncFrom: (trainer) => sendingSync(transport, lines, trainer, clock),
    statements: connections.flatMap(statementsOf),
    close: async () => {
      await transport.close();
      await Promise.all(connections.map((connection) => connection.close()));
      for (const { http } of lines) http.close();
    },
  };
}

function openTransport(
  options: SendingOptions,
  { kind, device }: { readonly kind: RemoteKind; readonly device: string },
): Transport {
  const isOnGpu = device.startsWith("cuda");
  if (options.type === "same-gpu") {
    if (isOnGpu) return new SameGpu();
    throw new RerollError(
      "INVALID_OPTION",
      `engine.remote.weights is "same-gpu", and the trainer is on ${device}. Set device to the GPU that ${kind} runs on, or engine.remote.weights to "files".`,
    );
  }
  const backend = options.backend ?? (isOnGpu ? "nccl" : "gloo");
  if (dialectOf(kind).weights!.group!.meets === "nccl-id" && backend !== "nccl") {
    throw new RerollError(
      "INVALID_OPTION",
      `engine.remote.weights is "broadcast", and the trainer on ${device} sends by ${backend}: ${kind} receives by nccl alone. Set device to a GPU, or engine.remote.weights to "files".`,
    );
  }
  return new ServerGroup({ ...options, backend, device });
}

interface Connection<Weights> {
  /** As it may be shown. */
  readonly url: string;
  readonly remote: RemoteEngine;
  readonly weights: Weights;
  close(): Promise<void>;
}

/** Tries out what the server can do, and whether it can be given weights, before anything else starts. */
async function connect<Weights extends GivenWeights & { close(): void }>(
  { rollout }: RunConfig,
  server: RemoteServer,
  patience: RetryOptions & { readonly report: (text: string) => void },
  weights: Weights,
  checkWeights: () => Promise<void>,
): Promise<Connection<Weights>> {
  try {
    const place = { ...placeOf(server), ...patience, startMs: START_MS };
    const remote = await connectRemote({ ...place, weights, prepare: checkWeights });
    remote.expectTrainable(rollout.sampling);
    const close = async () => {
      weights.close();
      remote.close();
    };
    return { url: `${server.url}`, remote, weights, close };
  } catch (cause) {
    weights.close();
    throw cause;
  }
}

function placeOf({ kind, url, apiKey }: RemoteServer) {
  return { kind, url: url.reveal(), ...(apiKey !== null && { apiKey: apiKey.reveal() }) };
}

function seatOf(url: string, index: number) {
  return { name: `The engine at ${url}`, worker: workerOf(index), isElsewhere: true };
}

/** The name of a server on the timeline. */
function workerOf(index: number): string {
  return `engine ${index + 1}`;
}

function placeOfServer({ url }: Connection<unknown>, index: number): OpenedEngines["places"][number] {
  return { name: workerOf(index), runsIn: "server", device: url };
}

function statementsOf({ url, remote }: Connection<unknown>): string[] {
  return remote.missing.map((line) => `${url}: ${line}`);
}
