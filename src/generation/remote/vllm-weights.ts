/**
 * vLLM's routes for training, as in its `entrypoints/serve/dev/rlhf/api_router.py` (0.26) and `entrypoints/rl/online/api_router.py` (0.32).
 *
 * They are there when the server was started with VLLM_SERVER_DEV_MODE=1. `/pause` ends the replies under way with the tokens they have, and
 * empties the cache; requests that come meanwhile wait. Replies do not say which weights they were drawn with.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { HttpClient } from "./http-client.ts";
import { isRemoteFault } from "./remote-fault.ts";
import { pickleSharedWeights } from "./vllm-pickles.ts";
import { askRoute, isMissing, type WeightRoutes } from "./weight-routes.ts";

const DEV_MODE =
  "Start vLLM with VLLM_SERVER_DEV_MODE=1 in its environment: its routes for training are only there then.";
const LORA =
  "Start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment: adapters are only taken then.";

const SHARING =
  'Start vLLM with --weight-transfer-config \'{"backend":"ipc"}\' and with VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_INSECURE_SERIALIZATION=1 in its environment, on the trainer\'s GPU.';

export const vllmWeights: WeightRoutes = {
  tellsRun: false,
  check: async (http, way) => {
    const answer = await askRoute(http, "/is_paused", { method: "GET", remedy: DEV_MODE }).catch((cause: unknown) => {
      // Adapters need none of these routes, and one that has not got them cannot have been stopped.
      if (way === "adapters" && isMissing(cause)) return { is_paused: false };
      throw cause;
    });
    if (answer.is_paused === true) await askRoute(http, "/resume");
    if (way === "same-gpu") await expectSharing(http);
  },
  loadFolder: async (http, { folder }) => {
    await askRoute(http, "/pause?mode=abort", { remedy: DEV_MODE });
    const body = { method: "reload_weights", kwargs: { weights_path: folder } };
    // Where this fails nobody knows what the weights are: nothing is drawn with them until a later attempt has worked.
    await askRoute(http, "/collective_rpc", { body, remedy: DEV_MODE });
    await askRoute(http, "/resume");
  },
  update: {
    begin: async (http) => {
      await askRoute(http, "/pause?mode=abort", { remedy: DEV_MODE });
      await startUpdate(http);
    },
    end: async (http, { run, version }) => {
      // Versions before 0.32 have no use for the label, and do not mind it.
      await askRoute(http, "/finish_weight_update", { body: { weight_version: `${run}/${version}` } });
      await askRoute(http, "/resume");
    },
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
    receive: async (http, _group, facts) => {
      await askRoute(http, "/update_weights", { body: { update_info: factsOf(facts) } });
    },
  },
  sameGpu: {
    read: async (http, uuid, places) => {
      const info = {
        ...factsOf(places),
        ipc_handles_pickled: Buffer.from(pickleSharedWeights(uuid, places)).toString("base64"),
      };
      await askRoute(http, "/update_weights", { body: { update_info: info } }).catch((cause: unknown) => {
        throw unreadable(http, cause);
      });
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

/** An update that a killed run has left open is ended first: all weights come anew. */
async function startUpdate(http: HttpClient): Promise<void> {
  const start = () => askRoute(http, "/start_weight_update", { remedy: DEV_MODE });
  await start().catch(async (cause: unknown) => {
    if (!isRemoteFault(cause)) throw cause;
    await askRoute(http, "/finish_weight_update").catch(() => {});
    await start();
  });
}

function factsOf(
  facts: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[],
) {
  return {
    names: facts.map(({ name }) => name),
    dtype_names: facts.map(({ dtype }) => dtype),
    shapes: facts.map(({ shape }) => shape),
  };
}

/** Only the backend that reads memory is content with no address of a group. */
async function expectSharing(http: HttpClient): Promise<void> {
  try {
    await askRoute(http, "/init_weight_transfer_engine", { body: { init_info: {} }, remedy: DEV_MODE });
  } catch (cause) {
    throw new RerollError(
      "REMOTE_INCAPABLE",
      `${http.url} cannot read weights from memory: ${reasonOf(cause)} ${SHARING}`,
      {},
      { cause },
    );
  }
}

/** vLLM says no more than that it failed; why is in its log. */
function unreadable(http: HttpClient, cause: unknown): RerollError {
  return new RerollError(
    "SYNC_FAILED",
    `${http.url} could not read the weights from memory: ${reasonOf(cause)} Its log says why. ${SHARING}`,
    {},
    { cause },
  );
}

function reasonOf(cause: unknown): string {
  const words = cause instanceof Error ? cause.message : String(cause);
  return words.endsWith(".") ? words : `${words}.`;
}
