/** `reroll serve-environments`: the environments and rewards of a run file behind an address, until SIGINT or SIGTERM. */
import { resolve } from "node:path";
import { Command, Option } from "commander";
import { expectUsableKey } from "../../services/bearer-key.ts";
import { checkAddress } from "../check-address.ts";
import { several, wholeNumber } from "../flag-values.ts";
import { readKey } from "../read-key.ts";

interface ServeEnvironmentsFlags {
  readonly set: readonly string[];
  readonly port: number;
  readonly host: string;
  readonly apiKey?: string;
  readonly apiKeyFile?: string;
  readonly idle: number;
}

/** The command, for the program to add. */
export const serveEnvironmentsCommand = new Command("serve-environments")
  .description("Serve the environments and rewards of a run file to runs on other machines.")
  .argument("<run>", "run file; only its envs and rewards are looked at")
  .option("--set <key=value>", "a value in place of the file's; may be given several times", several, [])
  .option("--port <n>", "port to listen on; 0 takes a free one", wholeNumber(0, 65535), 8700)
  .option("--host <address>", "address to listen on; one that other machines reach needs an API key", "127.0.0.1")
  .option("--api-key <key>", "what runs must send as bearer token")
  .addOption(
    new Option(
      "--api-key-file <file>",
      "file that holds the API key, to keep it out of the list of processes",
    ).conflicts("apiKey"),
  )
  .option("--idle <seconds>", "how long an episode is kept that nobody asks anything of", wholeNumber(1), 900)
  .addHelpText(
    "after",
    `
Examples:
  $ reroll serve-environments run.ts --host 0.0.0.0 --api-key-file ./key
  $ reroll train run.ts --set 'envs.lake={"type":"remote","url":"http://10.0.0.5:8700","apiKey":{"env":"ENV_KEY"}}'`,
  )
  .action(runServeEnvironments);

async function runServeEnvironments(runFile: string, flags: ServeEnvironmentsFlags): Promise<void> {
  const { host, port, idle } = flags;
  const apiKey = readKey(flags);
  if (apiKey !== undefined) expectUsableKey(apiKey);
  await checkAddress({ host, port, hasKey: apiKey !== undefined });
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
  await new Promise<void>((stop) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop());
  });
  await close();
}
