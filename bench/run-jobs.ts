/** Runs one script many times, a process each, some at a time. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** What to run, and how. */
interface Jobs {
  /** The script, beside the one that asks, without its ending: bundled it is JavaScript. */
  readonly script: string;
  /** The arguments of each run. */
  readonly words: readonly (readonly string[])[];
  readonly numAtOnce: number;
}

/** Waits for all of them; the first that fails ends the others' turn. */
export async function runJobs({ script, words, numAtOnce }: Jobs): Promise<void> {
  const file = fileURLToPath(new URL(script, import.meta.url)) + (import.meta.url.endsWith(".ts") ? ".ts" : ".js");
  const waiting = [...words];
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const child = spawn(process.execPath, [...process.execArgv, file, ...next], { stdio: "inherit" });
      const [code] = await once(child, "exit");
      if (code !== 0) throw new Error(`${script} ${next.join(" ")} ended with exit code ${code}.`);
    }
  };
  await Promise.all(Array.from({ length: numAtOnce }, work));
}
