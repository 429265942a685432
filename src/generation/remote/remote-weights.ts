/**
 * New weights for a remote engine, from files that it can reach.
 *
 * SGLang has POST /update_weights_from_disk, and a server of this project POST /v1/weights; both are told the version,
 * and their tokens carry it from then on. vLLM and llama.cpp have no such route in their standard server: restart them,
 * or use one of these.
 *
 * SGLang's fields as in its `io_struct.py` (read in November 2026). It waits for running requests before it loads.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { HttpClient } from "./http-client.ts";
import { refuseStatus } from "./remote-fault.ts";

interface RemoteWeightsOptions {
  readonly kind: "sglang" | "reroll";
  /** Such as http://127.0.0.1:30000. */
  readonly url: string;
  readonly apiKey?: string;
  /** How long loading may take. Default 10 minutes. */
  readonly timeoutMs?: number;
}

interface RemoteWeights {
  /** Resolves when the server has loaded the folder, under this version. */
  loadWeights(folder: string, version: number): Promise<void>;
  close(): void;
}

export function connectRemoteWeights(options: RemoteWeightsOptions): RemoteWeights {
  const { kind, url, apiKey, timeoutMs = 600_000 } = options;
  const http = new HttpClient({ url, timeoutMs, maxConnections: 1, ...(apiKey !== undefined && { apiKey }) });
  return {
    async loadWeights(folder, version) {
      const response = await http.send({ method: "POST", ...REQUESTS[kind](folder, version) });
      await refuseStatus(response);
      const answer = answerSchema.safeParse(await response.json());
      if (answer.data?.success === false) throw notLoaded(response.url, folder, answer.data.message);
    },
    close: () => http.close(),
  };
}

const REQUESTS = {
  sglang: (folder: string, version: number) => ({
    path: "/update_weights_from_disk",
    // What was computed with the old weights is of no use: the cache goes.
    body: { model_path: folder, weight_version: String(version), flush_cache: true },
  }),
  reroll: (folder: string, version: number) => ({ path: "/v1/weights", body: { path: folder, version } }),
} as const;

/** SGLang says in the body whether it worked, on some versions with status 200 either way. */
const answerSchema = z.looseObject({
  success: z.boolean().optional(),
  message: z.string().default("it does not say why"),
});

function notLoaded(url: string, folder: string, reason: string): RerollError {
  return new RerollError("REMOTE_REFUSED", `${url} did not load ${folder}: ${reason}`, { url, folder });
}
