/** Which of several processes this one is, as the launcher that started it says: torchrun, srun, mpirun, or variables set by hand. */
import { RerollError } from "../errors/reroll-error.ts";

/** The place of a process among those that a launcher started. */
export interface Launch {
  /** 0 for the controller. */
  readonly rank: number;
  readonly worldSize: number;
  /** Its number on its own machine, and so its GPU. */
  readonly localRank: number;
  /** Processes on its machine. */
  readonly localWorldSize: number;
  /** Where the controller listens. */
  readonly host: string;
  readonly port: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The names that a launcher gives the numbers. The first whose rank and size are both there is meant. */
const LAUNCHERS = [
  { rank: "RANK", size: "WORLD_SIZE", local: "LOCAL_RANK", localSize: "LOCAL_WORLD_SIZE" },
  {
    rank: "OMPI_COMM_WORLD_RANK",
    size: "OMPI_COMM_WORLD_SIZE",
    local: "OMPI_COMM_WORLD_LOCAL_RANK",
    localSize: "OMPI_COMM_WORLD_LOCAL_SIZE",
  },
  { rank: "PMI_RANK", size: "PMI_SIZE", local: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS" },
  // A batch script has these two as well, before srun starts anything: only a step has a number.
  {
    rank: "SLURM_PROCID",
    size: "SLURM_NTASKS",
    local: "SLURM_LOCALID",
    localSize: "SLURM_NTASKS_PER_NODE",
    needs: "SLURM_STEP_ID",
  },
] as const;

const DEFAULT_PORT = 29500;

/** null where there is no launcher, or it started one process alone. */
export function readLaunch(environment: Environment): Launch | null {
  const names = LAUNCHERS.find(
    (one) =>
      environment[one.rank] !== undefined &&
      environment[one.size] !== undefined &&
      (!("needs" in one) || environment[one.needs] !== undefined),
  );
  if (names === undefined) return null;
  const worldSize = wholeNumber(environment, names.size, 1);
  if (worldSize === 1) return null;
  const rank = wholeNumber(environment, names.rank, 0);
  if (rank >= worldSize)
    throw new RerollError(
      "INVALID_OPTION",
      `${names.rank} must be less than ${names.size}: got ${rank} and ${worldSize}.`,
    );
  const optional = (name: string, fallback: number, least: number) =>
    environment[name] === undefined ? fallback : wholeNumber(environment, name, least);
  return {
    rank,
    worldSize,
    localRank: optional(names.local, 0, 0),
    localWorldSize: optional(names.localSize, 1, 1),
    host: hostOf(environment, names.rank),
    port: portOf(optional("MASTER_PORT", DEFAULT_PORT, 1), environment),
  };
}

/**
 * The job that this process belongs to; empty without one. A job runs once at a time, also where it is started again: Slurm sees to that, and
 * the driver of a job of Ray, which says so in REROLL_JOB.
 */
export function jobOf({ REROLL_JOB: job, SLURM_CLUSTER_NAME: cluster = "", SLURM_JOB_ID: id }: Environment): string {
  return job ?? (id === undefined ? "" : `slurm ${cluster} ${id}`);
}

/**
 * Whether what started this process leaves it behind when it is killed itself, and starts another one in its next life: the agent of torchrun,
 * the actor of a job of Ray.
 */
export function isLeftBehind({ TORCHELASTIC_RUN_ID: ofTorchrun, REROLL_JOB: job }: Environment): boolean {
  return ofTorchrun !== undefined || job !== undefined;
}

/** torchrun serves a store of its own at MASTER_PORT, so the controller takes the next one. */
function portOf(masterPort: number, { TORCHELASTIC_USE_AGENT_STORE: hasStore }: Environment): number {
  return hasStore === "True" ? masterPort + 1 : masterPort;
}

function hostOf(environment: Environment, rankName: string): string {
  const { MASTER_ADDR: given, SLURM_STEP_NODELIST: nodes, SLURM_JOB_NODELIST: jobNodes } = environment;
  if (given !== undefined && given !== "") return given;
  const list = nodes ?? jobNodes;
  if (list !== undefined) return firstNode(list);
  throw new RerollError(
    "MISSING_KEY",
    `${rankName} is set, and MASTER_ADDR is not. Export the name or address of the machine that has rank 0 as MASTER_ADDR on every machine.`,
  );
}

/** The first of a list as Slurm writes it: "n[03-07,9],m1" begins with n03. */
export function firstNode(list: string): string {
  const [, prefix = "", first, suffix = ""] = /^([^[,]*)(?:\[(\d+)[^\]]*\]([^,]*))?/.exec(list) ?? [];
  return first === undefined ? prefix : `${prefix}${first}${suffix}`;
}

function wholeNumber(environment: Environment, name: string, least: number): number {
  const text = environment[name] ?? "";
  // Slurm may write "2(x3),1": the number on the first nodes.
  const value = Number(/^\d+/.exec(text)?.[0] ?? Number.NaN);
  if (Number.isInteger(value) && value >= least) return value;
  throw new RerollError(
    "INVALID_OPTION",
    `${name} must be a whole number of at least ${least}: got ${JSON.stringify(text)}.`,
  );
}
