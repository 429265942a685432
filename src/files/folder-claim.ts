/**
 * A run folder belongs to one process at a time.
 *
 * A process that wants it puts a file into `<folder>/.claims` and then looks for others; alone, it has the folder. Of two that
 * come at the same time, at least the later one to look sees the other, so both never have it. A claim counts as long as its process
 * lives: one that was killed leaves a file behind that the next one removes. Of a process on another machine nobody knows whether it lives, unless
 * both belong to one job of a scheduler, which runs a job once at a time.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { RerollError } from "../errors/reroll-error.ts";
import { replaceText } from "./replace-file.ts";

/** The folder of claims in the folder that they are for. */
export const CLAIMS = ".claims";

/** A folder that is this process's own until it is released. */
export interface FolderClaim {
  release(): Promise<void>;
}

/**
 * Claims a folder that is there. Throws RUN_ACTIVE where another process has it, or came first.
 *
 * @param job the scheduler's name for what this process belongs to; empty where there is no scheduler
 */
export async function claimFolder(folder: string, job = ""): Promise<FolderClaim> {
  const place = join(folder, CLAIMS);
  await mkdir(place, { recursive: true });
  const own = randomUUID();
  const files = { claim: join(place, `${own}.claim`), held: join(place, `${own}.held`) };
  const release = async () => {
    await rm(files.held, { force: true });
    await rm(files.claim, { force: true });
  };
  await layDown(files.claim, { pid: process.pid, host: hostname(), started: startOf(process.pid), job });
  try {
    await waitForOthers(folder, place, { id: own, job });
    await writeFile(files.held, "");
    return { release };
  } catch (cause) {
    await release();
    throw cause;
  }
}

/** Returns when there is no other claim, and throws when another one goes before this. */
async function waitForOthers(folder: string, place: string, own: OwnClaim): Promise<void> {
  for (let look = 0; ; look++) {
    const others = await livingClaims(place, own);
    if (others.length === 0) return;
    const first = others.find(({ isHeld }) => isHeld) ?? others.find(({ id }) => id < own.id);
    const winner = first ?? (look > MAX_LOOKS ? others[0] : undefined);
    if (winner !== undefined) throw taken(folder, join(place, `${winner.id}.claim`), winner.owner);
    // The others came at the same time. They see this claim before theirs and give up.
    await setTimeout(LOOK_AGAIN_MS);
  }
}

const LOOK_AGAIN_MS = 5;
/** Ten seconds: a process that has not given up by then has been halted. */
const MAX_LOOKS = 2000;

interface OwnClaim {
  readonly id: string;
  readonly job: string;
}

interface Claim {
  readonly id: string;
  readonly owner: Owner;
  /** Whether its process has the folder, and does not only ask for it. */
  readonly isHeld: boolean;
}

/** The process that a claim belongs to. */
interface Owner {
  readonly pid: number;
  readonly host: string;
  /** When it started, as the system counts; empty where it does not tell. Another process may get the same number later. */
  readonly started: string;
  /** The job of a scheduler that it belongs to. Absent from claims of earlier versions. */
  readonly job?: string;
}

/** A file that is complete as soon as it has its name. */
async function layDown(path: string, owner: Owner): Promise<void> {
  await replaceText(path, JSON.stringify(owner));
}

/** The claims of other processes. Those of processes that are gone are removed. */
async function livingClaims(place: string, own: OwnClaim): Promise<Claim[]> {
  const names = await readdir(place);
  const ids = names.flatMap((name) => (name.endsWith(".claim") ? [name.slice(0, -".claim".length)] : []));
  const found = await Promise.all(
    ids.map(async (id) => {
      if (id === own.id) return [];
      const owner = await readOwner(join(place, `${id}.claim`));
      if (owner === "given-up") return [];
      if (isRunning(owner, own.job)) return [{ id, owner, isHeld: names.includes(`${id}.held`) }];
      await rm(join(place, `${id}.held`), { force: true });
      await rm(join(place, `${id}.claim`), { force: true });
      return [];
    }),
  );
  return found.flat();
}

async function readOwner(path: string): Promise<Owner | "given-up"> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as Owner;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return "given-up";
    throw cause;
  }
}

/** A process of another machine cannot be looked at, and counts as running, except that its own job would not run again if it were. */
function isRunning({ pid, host, started, job = "" }: Owner, ownJob: string): boolean {
  if (host !== hostname()) return job === "" || job !== ownJob;
  return isAlive(pid) && (started === "" || started === startOf(pid));
}

/** Whether a process of this machine is there. One of somebody else's may not be signalled, but is. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The start of a process in ticks since the machine started, on Linux. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name of the program is in parentheses and may hold spaces; the start is the 20th word after it.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}

function taken(folder: string, file: string, { pid, host }: Owner): RerollError {
  const isHere = host === hostname();
  const who = isHere ? `process ${pid}` : `process ${pid} of the machine ${host}`;
  const advice = isHere
    ? "Stop it first, or wait until it has ended."
    : `Stop it first. If it is gone, delete ${file}.`;
  return new RerollError("RUN_ACTIVE", `${folder} is being written by ${who}. ${advice}`, { path: folder, pid });
}
