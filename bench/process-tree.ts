/** The processes that a process has started, and theirs, as Linux tells of them. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** A process of this machine. */
export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  /** Its words, joined by spaces. */
  readonly command: string;
  readonly residentBytes: number;
  readonly numFiles: number;
  readonly numThreads: number;
}

/** Connections over TCP to a port of this machine that processes hold, by either end. */
export interface PortConnections {
  /** How many callers hold. */
  readonly count: number;
  /** What links under /proc/<pid>/fd say that lead to one, at either end. */
  readonly links: ReadonlySet<string>;
}

export function connectionsOf(port: number): PortConnections {
  const lines = ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/net/${table}`, "utf8").trim().split("\n").slice(1),
  );
  const links = new Set<string>();
  const callers = new Set<string>();
  for (const line of lines) {
    const [, local = "", remote = "", state, , , , , , inode = "0"] = line.trim().split(/\s+/);
    const isAt = (address: string) => Number.parseInt(address.split(":")[1]!, 16) === port;
    // What no process holds any more has no inode, and what listens is no connection.
    if (inode === "0" || state === "0A" || !(isAt(local) || isAt(remote))) continue;
    links.add(`socket:[${inode}]`);
    // The table is read in pieces, and may show a connection twice.
    if (isAt(remote)) callers.add(inode);
  }
  return { count: callers.size, links };
}

/** Where the open files of a process lead, as links of the kernel. A process that has ended has none. */
export function openFiles(pid: number): readonly string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap((name) => {
      try {
        return [readlinkSync(`${folder}/${name}`)];
      } catch {
        // Closed since it was listed.
        return [];
      }
    });
  } catch {
    return [];
  }
}

/** The process and everything below it; those that end while they are looked at are left out. */
export function processTree(root: number): readonly ProcessFacts[] {
  const all = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? (factsOf(Number(name)) ?? []) : []));
  const found = all.filter(({ pid }) => pid === root);
  for (const one of found) found.push(...all.filter(({ parent }) => parent === one.pid));
  return found;
}

function factsOf(pid: number): ProcessFacts | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const number = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1] ?? 0);
    return {
      pid,
      parent: number("PPid"),
      command: readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").join(" ").trim(),
      residentBytes: 1024 * number("VmRSS"),
      numFiles: readdirSync(`/proc/${pid}/fd`).length,
      numThreads: number("Threads"),
    };
  } catch {
    return null;
  }
}
