/** `reroll serve-environments`: the environments and rewards of a run file behind an address, until SIGINT or SIGTERM. */
import { once } from "node:events";
import { resolve } from "node:path";
import { Command, Option } from "commander";
import { several, wholeNumber } from "../flag-values.ts";
import { checkListenFlags, type ListenFlags, withListenFlags } from "../listen-flags.ts";
import { stopSignal } from "../stop-signal.ts";
import { superviseThis } from "../supervise.ts";
import { showLife, tellParent } from "../supervised.ts";

interface ServeEnvironmentsFlags extends ListenFlags {
  readonly set: readonly string[];
  readonly idle: number;
  readonly restarts?: number;
  readonly supervised?: boolean;
}

/** The command, for the program to add. */
export const serveEnvironmentsCommand = withListenFlags(
  new Command("serve-environments")
    .description("Serve the environments and rewards of a run file to runs on other machines.")
    .argument("<run>", "run file; only its envs and rewards are looked at")
    .option("--set <key=value>", "a value in place of the file's; may be given several times", several, []),
  { port: 8700, guests: "runs" },
)
  .option("--idle <seconds>", "how long an episode is kept that nobody asks anything of", wholeNumber(1), 900)
  .option(
    "--restarts <n>",
    "start again whenever it fails or is killed; give up after n restarts in a row that did not come to listen",
    wholeNumber(1),
  )
  .addOption(new Option("--supervised").hideHelp())
  .addHelpText(
    "after",
    `
Examples:
  $ reroll serve-environments run.ts --host 0.0.0.0 --api-key-file ./key
  $ reroll train run.ts --set 'envs.lake={"type":"remote","url":"http://10.0.0.5:8700","apiKey":{"env":"ENV_KEY"}}'`,
  )
  .action(runServeEnvironments);

async function runServeEnvironments(runFile: string, flags: ServeEnvironmentsFlags): Promise<void> {
  if (flags.restarts !== undefined) return superviseThis(flags.restarts);
  const rest = flags.supervised === true ? showLife() : () => {};
  try {
    await serveUntilStopped(runFile, flags);
  } finally {
    rest();
  }
}

async function serveUntilStopped(runFile: string, flags: ServeEnvironmentsFlags): Promise<void> {
  const { host, port, idle, supervised } = flags;
  const apiKey = await checkListenFlags(flags);
  const [{ loadRunFile }, { resolveRun }, { parseOverride }, { serveWorld }] = await Promise.all([
    import("../../run/load-run-file.ts"),
    import("../../run/resolve-run.ts"),
    import("../../run/apply-overrides.ts"),
    import("../../run/serve-world.ts"),
  ]);
  const { config } = resolveRun(await loadRunFile(runFile), flags.set.map(parseOverride), process.env);
  const clock = () => performance.now();
  const { url, close } = await serveWorld(config, {
    ...{ host, port, apiKey, idleMs: 1000 * idle, clock, runFile: resolve(runFile) },
  });
  const names = Object.keys(config.envs).join(", ") || "none";
  console.log(`environments: ${names}; rewards: ${Object.keys(config.rewards).join(", ") || "none"}`);
  console.log(`listening on ${url}`);
  const { signal, release } = stopSignal(() => {}, supervised);
  tellParent({ kind: "listening" });
  if (!signal.aborted) await once(signal, "abort");
  release();
  await close();
}
