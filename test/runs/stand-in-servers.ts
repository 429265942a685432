/**
 * vLLM and SGLang as a run sees them, over an engine of our own: their routes for tokens and for weights, each refused where the real server
 * would refuse it or do harm. What they were told, in order, is in `calls`.
 */
import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { startThreadedEngine, type ThreadedEngine } from "../../src/generation/local/threaded-engine.ts";
import { resolveCheckpoint } from "../../src/models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../../src/models/formats/tensor-files.ts";
import { empty, tensor } from "../../src/torch/create.ts";
import type { ProcessGroup } from "../../src/torch/distributed/process-group.ts";
import { joinGroup, openStore, pythonGroupPrefix } from "../../src/torch/distributed/rendezvous.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { keep } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { type Body, type FakeServer, type Handler, startFakeSglang, startFakeVllm } from "../contracts/fake-servers.ts";

export interface StandIn extends FakeServer {
  /** The control routes that were asked, oldest first. */
  readonly calls: readonly string[];
  /** The same with what they were asked, a line each, without what differs from run to run; then the last request for tokens. */
  conversation(): string;
  /** Forgets every weight that it was given, as a server does that starts again. */
  startAgain(): Promise<void>;
  readonly adapters: {
    /** Names of all that were ever loaded, in order. */
    readonly loaded: readonly string[];
    /** Names of those that are there. */
    kept(): readonly string[];
    forget(): void;
  };
}

interface StandInOptions {
  readonly contextLength: number;
  /** Routes that this server has not got. */
  readonly without?: readonly string[];
  /** A route that never answers; `onSilence` is told when it is asked. */
  readonly silent?: string;
  readonly onSilence?: () => void;
}

export async function standInVllm(folder: string, options: StandInOptions): Promise<StandIn> {
  const line = await openLine(folder, options);
  const { route, engine } = line;
  let version = 0;
  const server = await startFakeVllm(
    line.drawing,
    "raw",
    {
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
        await engine().loadWeights(++version, (kwargs as { weights_path: string }).weights_path);
        return { results: [null] };
      }),
      ...route("/v1/load_lora_adapter", line.loadAdapter),
      ...route("/v1/unload_lora_adapter", line.unloadAdapter),
    },
    line.adapterNames,
  );
  return line.standIn(server);
}

export async function standInSglang(folder: string, options: StandInOptions): Promise<StandIn> {
  const line = await openLine(folder, options);
  const { route, engine } = line;
  const groups = new Map<string, ProcessGroup>();
  // Of the process, as in torch.distributed: a name stays taken when its group is gone.
  const names = new Set<string>();
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
        if (names.has(name)) return { success: false, message: `The group name ${name} has already been created.` };
        names.add(name);
        const [host, port] = [String(body.master_address), Number(body.master_port)];
        const store = await openStore({ type: "tcp", host, port, isServer: false });
        const membership = {
          rank: Number(body.rank_offset),
          worldSize: Number(body.world_size),
          backend: "gloo" as const,
        };
        const foreign = { prefix: pythonGroupPrefix(name, "gloo") };
        groups.set(name, await joinGroup({ store, name, ...membership, foreign, timeoutMs: 20_000 }));
        return { success: true, message: "Succeeded to initialize custom process group." };
      }),
      ...route("/destroy_weights_update_group", async ({ group_name: name }) => {
        const group = groups.get(String(name));
        if (group === undefined) return { success: false, message: "The group to be destroyed does not exist." };
        group.dispose();
        groups.delete(String(name));
        return { success: true, message: "Succeeded to destroy custom process group." };
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
      ...route("/load_lora_adapter", line.loadAdapter),
      ...route("/unload_lora_adapter", line.unloadAdapter),
    },
    () => weightVersion,
    line.adapterNames,
  );
  return line.standIn(server, () => {
    weightVersion = "default";
    for (const group of groups.values()) group.dispose();
    groups.clear();
  });
}

/** An engine that can be paused: replies under way end with what they have, later ones wait. */
async function openLine(folder: string, { contextLength, without = [], silent, onSilence }: StandInOptions) {
  const start = () =>
    startThreadedEngine({
      ...{ folder, tokenizerFolder: folder, numThreads: 1, options: { contextLength, isSteady: true } },
    });
  let engine: ThreadedEngine = await start();
  let starting: Promise<void> = Promise.resolve();
  const calls: string[] = [];
  const said: string[] = [];
  const loaded: string[] = [];
  let names: string[] = [];
  let paused: { readonly until: Promise<void>; readonly end: () => void } | null = null;
  const route = (path: string, answer: (body: Body) => Promise<object>): Record<string, Handler> => {
    if (without.includes(path)) return {};
    const handle: Handler = async (body, response) => {
      calls.push(path);
      said.push(lineOf(path, body));
      if (path === silent) return onSilence?.();
      await starting;
      await reply(response, () => answer(body));
    };
    return { [path]: handle };
  };
  return {
    route,
    adapterNames: () => names,
    loadAdapter: async (body: Body) => {
      const [name, place] = [String(body.lora_name), String(body.lora_path)];
      if (names.includes(name)) throw new TypeError(`The lora adapter '${name}' has already been loaded.`);
      await updateAdaptersFrom(engine, place, loaded.push(name));
      names.push(name);
      return { success: true };
    },
    unloadAdapter: async ({ lora_name: name }: Body) => {
      if (!names.includes(String(name))) throw new TypeError(`The lora adapter '${String(name)}' cannot be found.`);
      names = names.filter((one) => one !== name);
      return { success: true };
    },
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
        await starting;
        await paused?.until;
        return engine.generate(request);
      },
    },
    standIn: (server: FakeServer, forget = () => {}): StandIn => ({
      ...server,
      calls,
      conversation: () => {
        const last = server.bodies.filter((body) => "sampling_params" in body).at(-1) ?? {};
        return [...said, lineOf("/generate", last), ""].join("\n");
      },
      adapters: {
        loaded,
        kept: () => names,
        forget: () => {
          names = [];
        },
      },
      startAgain: async () => {
        server.dropConnections();
        forget();
        const ended = engine;
        // What is asked meanwhile waits, as at a port that is not served yet.
        starting = ended.close().then(async () => {
          engine = await start();
        });
        await starting;
      },
      close: async () => {
        forget();
        await server.close();
        await engine.close();
      },
    }),
  };
}

/** Adapters as PEFT stores them, added to the weights that the engine was started with. */
async function updateAdaptersFrom(engine: ThreadedEngine, folder: string, version: number): Promise<void> {
  const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8")) as {
    lora_alpha: number;
    r: number;
  };
  const checkpoint = resolveCheckpoint(join(folder, "adapter_model.safetensors"));
  const mapped = new MappedCheckpoint(checkpoint);
  const weights = new Map<string, Tensor>();
  for (const name of checkpoint.tensors.keys()) {
    const path = name.replace(/^base_model\.model\./, "");
    weights.set(path, mapped.read(name));
    weights.set(
      path.replace(/lora_[AB]\.weight$/, "lora_scale"),
      keep(tensor([config.lora_alpha / config.r], { dtype: "float64" })),
    );
  }
  await engine.updateWeights(version, weights);
  for (const weight of weights.values()) weight.dispose();
  mapped.dispose();
}

async function reply(response: ServerResponse, answer: () => Promise<object>): Promise<void> {
  const write = (status: number, body: object) => void response.writeHead(status).end(JSON.stringify(body));
  await answer().then(
    (body) => write(200, body),
    // What the server was asked wrongly, and what it could not do.
    (cause: Error) => write(cause instanceof TypeError ? 400 : 500, { error: { message: cause.message } }),
  );
}

/** Long lists are cut, and what is drawn anew for every run is named instead. */
function lineOf(path: string, body: Body): string {
  const cut = (key: string, value: unknown): unknown => {
    if (["rid", "session_id", "input_ids", "sampling_seed", "master_port"].includes(key)) return `<${key}>`;
    if (Array.isArray(value) && value.length > 4) return [...value.slice(0, 2), `... ${value.length} in all`];
    return value;
  };
  const text = JSON.stringify(body, cut);
  return `${path} ${text.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "<run>").replace(/(mine)-[0-9a-f]{8}/g, "$1-<id>")}`;
}
