/** The processes that a process has started, and theirs, as Linux tells of them. */
import { readdirSync, readFileSync } from "node:fs";

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
