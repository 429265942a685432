/**
 * SGLang's routes for training, as in its `entrypoints/http_server.py` and `managers/io_struct.py` (read in August 2026).
 *
 * What a server is told as `weight_version` it says with every reply, so that it tells whose weights it has.
 */
import { z } from "zod";
import { askRoute, isMissing, type WeightRoutes } from "./weight-routes.ts";

const OLD = "Use a version of SGLang that has it.";
const LORA = "Start SGLang with --enable-lora: adapters are only taken then.";

export const sglangWeights: WeightRoutes = {
  tellsRun: true,
  check: async (http, way) => {
    await askRoute(http, "/continue_generation", { body: {}, remedy: OLD }).catch((cause: unknown) => {
      // One that cannot go on cannot have been stopped either.
      if (way === "broadcast" || !isMissing(cause)) throw cause;
    });
  },
  loadFolder: async (http, { folder, run, version }) => {
    // What was computed with the old weights is of no use: the cache goes.
    const body = { model_path: folder, weight_version: `${run}/${version}`, flush_cache: true };
    await askRoute(http, "/update_weights_from_disk", { body });
  },
  update: {
    // Replies that stay would have tokens of two versions, and SGLang says one per reply.
    begin: async (http) => {
      await askRoute(http, "/pause_generation", { body: { mode: "abort" }, remedy: OLD });
    },
    end: async (http) => {
      await askRoute(http, "/continue_generation", { body: {} });
    },
  },
  group: {
    meets: "c10d",
    numRanks: async (http) => {
      const answer = await askRoute(http, "/server_info", { method: "GET", remedy: OLD });
      return z.looseObject({ tp_size: z.int().positive() }).parse(answer).tp_size;
    },
    join: async (http, { name, host, port, backend, rankOffset, worldSize }) => {
      const place = { master_address: host, master_port: port, rank_offset: rankOffset, world_size: worldSize };
      await askRoute(http, "/init_weights_update_group", {
        body: { ...place, group_name: name, backend },
        remedy: OLD,
      });
    },
    leave: async (http, group) => {
      await askRoute(http, "/destroy_weights_update_group", { body: { group_name: group }, remedy: OLD });
    },
    receive: async (http, group, facts, { run, version }) => {
      const listed = {
        names: facts.map(({ name }) => name),
        dtypes: facts.map(({ dtype }) => dtype),
        shapes: facts.map(({ shape }) => shape),
      };
      const body = { ...listed, group_name: group, flush_cache: true, weight_version: `${run}/${version}` };
      await askRoute(http, "/update_weights_from_distributed", { body, remedy: OLD });
    },
  },
  adapters: {
    load: async (http, name, folder) => {
      await askRoute(http, "/load_lora_adapter", { body: { lora_name: name, lora_path: folder }, remedy: LORA });
    },
    unload: async (http, name) => {
      await askRoute(http, "/unload_lora_adapter", { body: { lora_name: name }, remedy: LORA });
    },
  },
  memory: {
    release: async (http) => {
      await askRoute(http, "/release_memory_occupation", { body: { tags: ["kv_cache"] }, remedy: OLD });
    },
    resume: async (http) => {
      await askRoute(http, "/resume_memory_occupation", { body: { tags: ["kv_cache"] } });
    },
  },
};
