/** The command as a person starts it, in a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

/** How a command ended. */
export interface Ended {
  readonly code: number | null;
  /** Everything that it printed. */
  readonly stdout: string;
  readonly stderr: string;
}

/** Where a command runs, and with which variables beside those of the tests. */
export interface RerollOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a command. */
export function startReroll(words: readonly string[], options: RerollOptions): ChildProcess {
  return start(process.execPath, [main, ...words], options);
}

/** Starts a shell as the parent of a command, in which `$REROLL` is how the command is started. */
export function startShell(line: string, { cwd, env }: RerollOptions): ChildProcess {
  return start("sh", ["-c", line], { cwd, env: { ...env, REROLL: `${process.execPath} ${main}` } });
}

function start(program: string, words: readonly string[], { cwd, env }: RerollOptions): ChildProcess {
  return spawn(program, [...words], { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
}

/** Runs a command to its end. */
export async function runReroll(words: readonly string[], options: RerollOptions): Promise<Ended> {
  return ending(startReroll(words, options));
}

/** Waits for the end of a command that was started. */
export async function ending(child: ChildProcess): Promise<Ended> {
  const [[code], stdout, stderr] = await Promise.all([once(child, "exit"), text(child.stdout!), text(child.stderr!)]);
  return { code: code as number | null, stdout, stderr };
}
