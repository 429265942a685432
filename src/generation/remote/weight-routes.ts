/**
 * How a kind of server is given weights: what a dialect says about it, and how its routes are asked.
 *
 * There are four ways, and a server may have any of them: it reads the weights of a folder, it receives them in a process group that the
 * trainer sends to, it reads them from the trainer's memory on the GPU that both share, or it loads adapters beside the weights that it has.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { HttpClient } from "./http-client.ts";
import { refuseStatus } from "./remote-fault.ts";
import type { SharedWeight } from "./vllm-pickles.ts";

/** Weights as they are announced to a server: versions are counted per run. */
export interface AnnouncedWeights {
  /** Names the process that publishes, once and for all: letters, digits and dashes. */
  readonly run: string;
  readonly version: number;
}

/** Weights, or adapters, that lie in a folder which the server can read. */
export interface WeightsInFolder extends AnnouncedWeights {
  readonly folder: string;
  /** Whether the run may take the server over from another one: it has given it nothing yet. */
  readonly begins: boolean;
}

/** The ways in which a server may be given weights. */
export type WeightWay = "files" | "broadcast" | "same-gpu" | "adapters";

export interface WeightRoutes {
  /**
   * Throws where the server has not got what this way needs, and says what to do. Called once, before anything is sampled: a server that a killed run
   * has stopped while it gave it weights is told to go on.
   */
  check?(http: HttpClient, way: WeightWay): Promise<void>;
  /**
   * Whether replies say whose weights drew them, and which version. Where they do not, a server that starts again is noticed by its line, and no
   * reply is asked for while weights change.
   */
  readonly tellsRun: boolean;
  /** Makes it load the weights of a folder. */
  loadFolder?(http: HttpClient, weights: WeightsInFolder): Promise<void>;
  /** Around what `group` and `sameGpu` do. */
  readonly update?: UpdateRoutes;
  readonly group?: GroupRoutes;
  readonly sameGpu?: SameGpuRoutes;
  readonly adapters?: AdapterRoutes;
  readonly memory?: MemoryRoutes;
}

/** Where the ranks of a server meet the trainer, which is rank 0. */
interface GroupPlace {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly backend: "nccl" | "gloo";
  /** Rank of the server's first process. */
  readonly rankOffset: number;
  readonly worldSize: number;
}

/** One weight without its values. */
interface WeightFacts {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

interface GroupRoutes {
  /** How they meet: as a c10d group of that name, or by an id of NCCL that the trainer leaves in the store. */
  readonly meets: "c10d" | "nccl-id";
  numRanks(http: HttpClient): Promise<number>;
  /** Resolves when the trainer has joined as well. */
  join(http: HttpClient, place: GroupPlace): Promise<void>;
  /** Gives the group up. Absent where the next one takes its place. */
  leave?(http: HttpClient, group: string): Promise<void>;
  /** Resolves when every weight has been broadcast, one after another in this order. */
  receive(http: HttpClient, group: string, facts: readonly WeightFacts[], weights: AnnouncedWeights): Promise<void>;
}

interface UpdateRoutes {
  /** Ends replies under way, with the tokens that they have, and draws no more. */
  begin(http: HttpClient): Promise<void>;
  /** Draws again, with the new weights. */
  end(http: HttpClient, weights: AnnouncedWeights): Promise<void>;
}

/** One weight, and where it lies on the GPU. */
interface WeightPlace extends SharedWeight {
  readonly name: string;
}

interface SameGpuRoutes {
  /** Resolves when the server has read every weight from its place on the GPU of this id. */
  read(http: HttpClient, uuid: string, places: readonly WeightPlace[]): Promise<void>;
}

interface AdapterRoutes {
  load(http: HttpClient, name: string, folder: string): Promise<void>;
  unload(http: HttpClient, name: string): Promise<void>;
}

interface MemoryRoutes {
  /** Gives up what the weights do not need. */
  release(http: HttpClient): Promise<void>;
  resume(http: HttpClient): Promise<void>;
}

/** The name that the adapters of a version have on a server. */
export function adapterName({ run, version }: AnnouncedWeights): string {
  return `${run}-v${version}`;
}

interface Asked {
  readonly method?: "GET" | "POST";
  readonly body?: object;
  /** What to do where the route does not exist. */
  readonly remedy?: string;
}

/** Asks a route that answers with JSON or with nothing. Throws a REMOTE_FAULT for what may heal, anything else for what will not. */
export async function askRoute(
  http: HttpClient,
  path: string,
  { method = "POST", body, remedy }: Asked = {},
): Promise<Answer> {
  const response = await http.send({ method, path, ...(body && { body }) });
  if (response.status === 404 && remedy !== undefined) {
    response.discard();
    throw new RerollError("REMOTE_INCAPABLE", `${http.url} has no ${path.split("?")[0]}. ${remedy}`, { path });
  }
  await refuseStatus(response);
  const text = await response.text();
  const answer: Answer = answerSchema.safeParse(text === "" ? {} : tryJson(text)).data ?? {};
  if (answer.success === false) {
    const reason = typeof answer.message === "string" ? answer.message : "it does not say why";
    throw new RerollError("REMOTE_REFUSED", `${http.url}${path} did not work: ${reason}`, { path });
  }
  return answer;
}

/** Whether a server was asked for a route, with a remedy, that it has not got. */
export function isMissing(cause: unknown): boolean {
  return cause instanceof RerollError && cause.code === "REMOTE_INCAPABLE";
}

/** SGLang says in the body whether it worked, on some versions with status 200 either way. */
const answerSchema = z.looseObject({ success: z.boolean().optional(), message: z.unknown().optional() });
type Answer = Readonly<Record<string, unknown>>;

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Words of a route that promises none.
    return {};
  }
}
