/** The processes that a process has started, directly or not, read from /proc. */
import { readdirSync, readFileSync } from "node:fs";

/** Process ids, without zombies that `root` has not waited for yet. */
export function descendants(root: number): number[] {
  const parents = new Map(readdirSync("/proc").filter(isProcess).flatMap(parentOf));
  const found = [root];
  for (const ancestor of found) {
    for (const [pid, parent] of parents) if (parent === ancestor) found.push(pid);
  }
  return found.slice(1);
}

/** Whether a process is there and more than a zombie. */
export function isAlive(pid: number): boolean {
  return parentOf(String(pid)).length > 0;
}

function isProcess(name: string): boolean {
  return /^\d+$/.test(name);
}

/** The fields after the name, which stands in parentheses: state, parent. */
function parentOf(name: string): [number, number][] {
  try {
    const [state, parent] = readFileSync(`/proc/${name}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return state === "Z" ? [] : [[Number(name), Number(parent)]];
  } catch {
    return [];
  }
}
