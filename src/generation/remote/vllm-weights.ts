/**
 * vLLM's routes for training, as in its `entrypoints/serve/dev/rlhf/api_router.py` (0.26) and `entrypoints/rl/online/api_router.py` (0.32).
 *
 * They are there when the server was started with VLLM_SERVER_DEV_MODE=1. `/pause` ends the replies under way with the tokens they have, and
 * empties the cache; requests that come meanwhile wait. Replies do not say which weights they were drawn with.
 */
import { z } from "zod";
import { askRoute, type WeightRoutes } from "./weight-routes.ts";

const DEV_MODE =
  "Start vLLM with VLLM_SERVER_DEV_MODE=1 in its environment: its routes for training are only there then.";
const LORA =
  "Start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment: adapters are only taken then.";

export const vllmWeights: WeightRoutes = {
  tellsRun: false,
  check: async (http, way) => {
    if (way !== "adapters") await askRoute(http, "/is_paused", { method: "GET", remedy: DEV_MODE });
  },
  loadFolder: async (http, { folder }) => {
    await askRoute(http, "/pause?mode=abort", { remedy: DEV_MODE });
    try {
      const body = { method: "reload_weights", kwargs: { weights_path: folder } };
      await askRoute(http, "/collective_rpc", { body, remedy: DEV_MODE });
    } finally {
      await askRoute(http, "/resume");
    }
  },
  group: {
    meets: "nccl-id",
    numRanks: async (http) => {
      const answer = await askRoute(http, "/get_world_size", { method: "GET", remedy: DEV_MODE });
      return z.object({ world_size: z.int().positive() }).parse(answer).world_size;
    },
    join: async (http, { host, port, rankOffset, worldSize }) => {
      const place = { master_address: host, master_port: port, rank_offset: rankOffset, world_size: worldSize };
      await askRoute(http, "/init_weight_transfer_engine", { body: { init_info: place }, remedy: DEV_MODE });
    },
    begin: async (http) => {
      await askRoute(http, "/pause?mode=abort", { remedy: DEV_MODE });
      await askRoute(http, "/start_weight_update", { remedy: DEV_MODE });
    },
    receive: async (http, _group, facts) => {
      const info = {
        names: facts.map(({ name }) => name),
        dtype_names: facts.map(({ dtype }) => dtype),
        shapes: facts.map(({ shape }) => shape),
      };
      await askRoute(http, "/update_weights", { body: { update_info: info } });
    },
    end: async (http, { run, version }) => {
      // Versions before 0.32 have no use for the label, and do not mind it.
      await askRoute(http, "/finish_weight_update", { body: { weight_version: `${run}/${version}` } });
      await askRoute(http, "/resume");
    },
  },
  adapters: {
    load: async (http, name, folder) => {
      await askRoute(http, "/v1/load_lora_adapter", { body: { lora_name: name, lora_path: folder }, remedy: LORA });
    },
    unload: async (http, name) => {
      await askRoute(http, "/v1/unload_lora_adapter", { body: { lora_name: name }, remedy: LORA });
    },
  },
  memory: {
    // Level 1 keeps the weights in the memory of the machine and drops the cache.
    release: async (http) => {
      await askRoute(http, "/sleep?level=1", { remedy: `${DEV_MODE} It also needs --enable-sleep-mode.` });
    },
    resume: async (http) => {
      await askRoute(http, "/wake_up");
    },
  },
};
