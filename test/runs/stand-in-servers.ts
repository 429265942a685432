/**
 * vLLM and SGLang as a run sees them, over an engine of our own: their routes for tokens and for weights, each refused where the real server
 * would refuse it or do harm. What they were told, in order, is in `calls`.
 */
import type { ServerResponse } from "node:http";
import { startThreadedEngine, type ThreadedEngine } from "../../src/generation/local/threaded-engine.ts";
import { updateWeightsFrom } from "../../src/generation/local/weights-from-folder.ts";
import { empty } from "../../src/torch/create.ts";
import type { ProcessGroup } from "../../src/torch/distributed/process-group.ts";
import { joinGroup, openStore, pythonGroupPrefix } from "../../src/torch/distributed/rendezvous.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { keep } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { type Body, type FakeServer, type Handler, startFakeSglang, startFakeVllm } from "../contracts/fake-servers.ts";

export interface StandIn extends FakeServer {
  /** The control routes that were asked, oldest first. */
  readonly calls: readonly string[];
  /** Forgets every weight that it was given, as a server does that starts again. */
  startAgain(): Promise<void>;
}

interface StandInOptions {
  readonly contextLength: number;
  /** Routes that this server has not got. */
  readonly without?: readonly string[];
}

export async function standInVllm(folder: string, options: StandInOptions): Promise<StandIn> {
  const line = await openLine(folder, options);
  const { route, engine } = line;
  let version = 0;
  const server = await startFakeVllm(line.drawing, "raw", {
    ...route("/is_paused", async () => ({ is_paused: line.isPaused() })),
    ...route("/pause?mode=abort", async () => {
      await line.pause();
      return { status: "paused" };
    }),
    ...route("/resume", async () => {
      line.resume();
      return { status: "resumed" };
    }),
    ...route("/collective_rpc", async ({ method, kwargs }) => {
      if (method !== "reload_weights") throw new Error(`no method ${String(method)}`);
      // Half-loaded weights must not be drawn with.
      if (!line.isPaused()) throw new Error("reload_weights while it draws");
      await updateWeightsFrom(engine(), (kwargs as { weights_path: string }).weights_path, ++version);
      return { results: [null] };
    }),
  });
  return line.standIn(server);
}

export async function standInSglang(folder: string, options: StandInOptions): Promise<StandIn> {
  const line = await openLine(folder, options);
  const { route, engine } = line;
  const groups = new Map<string, ProcessGroup>();
  let weightVersion = "default";
  let version = 0;
  const server = await startFakeSglang(
    line.drawing,
    {
      ...route("/server_info", async () => ({ tp_size: 1, dp_size: 1 })),
      ...route("/pause_generation", async ({ mode }) => {
        if (mode !== "abort") throw new Error(`mode ${String(mode)}`);
        await line.pause();
        return { message: "Generation paused successfully." };
      }),
      ...route("/continue_generation", async () => {
        line.resume();
        return { message: "Generation continued successfully." };
      }),
      ...route("/init_weights_update_group", async (body) => {
        const name = String(body.group_name);
        if (groups.has(name)) return { success: false, message: `The group ${name} exists.` };
        const [host, port] = [String(body.master_address), Number(body.master_port)];
        const store = await openStore({ type: "tcp", host, port, isServer: false });
        const membership = {
          rank: Number(body.rank_offset),
          worldSize: Number(body.world_size),
          backend: "gloo" as const,
        };
        const foreignPrefix = pythonGroupPrefix(name, "gloo");
        groups.set(name, await joinGroup({ store, name, ...membership, foreignPrefix, timeoutMs: 20_000 }));
        return { success: true, message: "Succeeded to initialize custom process group." };
      }),
      ...route("/update_weights_from_distributed", async (body) => {
        const group = groups.get(String(body.group_name));
        if (group === undefined) return { success: false, message: `Group ${String(body.group_name)} not in [].` };
        if (!line.isPaused() || body.flush_cache !== true) throw new Error("old weights or their cache are in use");
        const [names, dtypes, shapes] = [body.names as string[], body.dtypes as DType[], body.shapes as number[][]];
        const weights = new Map<string, Tensor>();
        for (const [i, name] of names.entries()) {
          const weight = keep(empty(shapes[i]!, { dtype: dtypes[i]! }));
          await group.broadcast(weight, 0);
          weights.set(name, weight);
        }
        await engine().updateWeights(++version, weights);
        for (const weight of weights.values()) weight.dispose();
        weightVersion = String(body.weight_version);
        return { success: true, message: "Succeeded to update parameter online." };
      }),
      ...route("/release_memory_occupation", async () => ({})),
      ...route("/resume_memory_occupation", async () => ({})),
    },
    () => weightVersion,
  );
  return line.standIn(server, () => {
    weightVersion = "default";
    for (const group of groups.values()) group.dispose();
    groups.clear();
  });
}

/** An engine that can be paused: replies under way end with what they have, later ones wait. */
async function openLine(folder: string, { contextLength, without = [] }: StandInOptions) {
  const start = () =>
    startThreadedEngine({
      ...{ folder, tokenizerFolder: folder, numThreads: 1, options: { contextLength, isSteady: true } },
    });
  let engine: ThreadedEngine = await start();
  const calls: string[] = [];
  let paused: { readonly until: Promise<void>; readonly end: () => void } | null = null;
  const route = (path: string, answer: (body: Body) => Promise<object>): Record<string, Handler> => {
    if (without.includes(path)) return {};
    const handle: Handler = async (body, response) => {
      calls.push(path);
      await reply(response, () => answer(body));
    };
    return { [path]: handle };
  };
  return {
    route,
    engine: () => engine,
    isPaused: () => paused !== null,
    pause: async () => {
      let end = () => {};
      const until = new Promise<void>((resolve) => {
        end = resolve;
      });
      paused ??= { until, end };
      await engine.abortAll();
    },
    resume: () => {
      paused?.end();
      paused = null;
    },
    drawing: {
      status: () => engine.status(),
      generate: async (request: Parameters<ThreadedEngine["generate"]>[0]) => {
        await paused?.until;
        return engine.generate(request);
      },
    },
    standIn: (server: FakeServer, forget = () => {}): StandIn => ({
      ...server,
      calls,
      startAgain: async () => {
        await engine.close();
        engine = await start();
        forget();
        server.dropConnections();
      },
      close: async () => {
        forget();
        await server.close();
        await engine.close();
      },
    }),
  };
}

async function reply(response: ServerResponse, answer: () => Promise<object>): Promise<void> {
  const write = (status: number, body: object) => void response.writeHead(status).end(JSON.stringify(body));
  await answer().then(
    (body) => write(200, body),
    (cause: Error) => write(500, { error: { message: cause.message } }),
  );
}
