/** `reroll dashboard`: a page over runs, until SIGINT or SIGTERM. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { Command } from "commander";
import { defaultRunsFolder } from "../../run/runs-folder.ts";
import { DASHBOARD_PORT } from "../dashboard-port.ts";
import { expectFolder } from "../expect-folder.ts";
import { wholeNumber } from "../flag-values.ts";
import { stopSignal } from "../stop-signal.ts";

interface DashboardFlags {
  readonly port: number;
  readonly host: string;
  readonly token?: string;
}

/** The command, for the program to add. */
export const dashboardCommand = new Command("dashboard")
  .description("Show runs on a web page, live while they go on.")
  .argument("[folder]", "where runs are, or one run (default: runs, or $REROLL_HOME/runs)")
  .option("--port <n>", "port to listen on; 0 takes a free one", wholeNumber(0, 65535), DASHBOARD_PORT)
  .option("--host <address>", "address to listen on; one that other machines reach needs a token", "127.0.0.1")
  .option("--token <token>", "what a browser must send; the printed address holds it")
  .addHelpText(
    "after",
    `
Examples:
  $ reroll dashboard
  $ reroll dashboard runs/first --port 0
  $ reroll dashboard --host 0.0.0.0 --token "$(openssl rand -hex 16)"`,
  )
  .action(runDashboard);

async function runDashboard(folder: string | undefined, { port, host, token }: DashboardFlags): Promise<void> {
  if (folder !== undefined) expectFolder(folder);
  const given = resolve(folder ?? defaultRunsFolder());
  const isRun = existsSync(join(given, "run.json"));
  const root = isRun ? dirname(given) : given;
  const { openDashboard } = await import("../open-dashboard.ts");
  const stop = stopSignal(() => undefined);
  const dashboard = await openDashboard({ root, port, host, ...(token === undefined ? {} : { token }) });
  console.log(`Runs of ${root}: ${dashboard.url}${isRun ? `#/runs/${encodeURIComponent(basename(given))}` : ""}`);
  if (!existsSync(root)) console.log(`${root} is not there yet; runs show up when they start.`);
  if (!stop.signal.aborted) await once(stop.signal, "abort");
  await dashboard.close();
}
