/** `reroll dashboard`: a page over runs, until SIGINT or SIGTERM; or one run as a file. */
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { Command } from "commander";
import { RerollError } from "../../errors/reroll-error.ts";
import { defaultRunsFolder } from "../../run/runs-folder.ts";
import { DASHBOARD_PORT } from "../dashboard-port.ts";
import { expectFolder } from "../expect-folder.ts";
import { wholeNumber } from "../flag-values.ts";
import { stopSignal } from "../stop-signal.ts";

interface DashboardFlags {
  readonly port: number;
  readonly host: string;
  readonly token?: string;
  readonly export?: boolean;
  readonly trajectories: number;
}

/** The command, for the program to add. */
export const dashboardCommand = new Command("dashboard")
  .description("Show runs on a web page, live while they go on.")
  .argument("[folder]", "where runs are, or one run (default: runs, or $REROLL_HOME/runs)")
  .option("--port <n>", "port to listen on; 0 takes a free one", wholeNumber(0, 65535), DASHBOARD_PORT)
  .option("--host <address>", "address to listen on; one that other machines reach needs a token", "127.0.0.1")
  .argument("[file]", "with --export, the file to write (default: the name of the run, .html)")
  .option("--export", "write one run as one HTML file that opens without a server, and end")
  .option(
    "--trajectories <n>",
    "with --export, the most trajectories to keep, spread over the run",
    wholeNumber(0),
    100,
  )
  .option("--token <token>", "what a browser must send; the printed address holds it")
  .addHelpText(
    "after",
    `
Examples:
  $ reroll dashboard
  $ reroll dashboard runs/first --port 0
  $ reroll dashboard --export runs/first first.html
  $ reroll dashboard --host 0.0.0.0 --token "$(openssl rand -hex 16)"`,
  )
  .action(runDashboard);

async function runDashboard(
  folder: string | undefined,
  file: string | undefined,
  { port, host, token, export: isExport = false, trajectories }: DashboardFlags,
): Promise<void> {
  if (folder !== undefined) expectFolder(folder);
  if (isExport) return writeRun(folder, file, trajectories);
  if (file !== undefined) {
    throw new RerollError(
      "INVALID_OPTION",
      `${file} is one argument too many. To write a run to a file, add --export.`,
    );
  }
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

async function writeRun(folder: string | undefined, file: string | undefined, maxTrajectories: number): Promise<void> {
  if (folder === undefined || !existsSync(join(folder, "run.json"))) {
    const got = folder === undefined ? "got none" : `${folder} holds no run.json`;
    throw new RerollError(
      "RUN_NOT_FOUND",
      `--export needs the folder of one run: ${got}. As in: reroll dashboard --export runs/first first.html`,
    );
  }
  const [{ exportRun }, { openTokenizer }] = await Promise.all([
    import("../../dashboard/export-run.ts"),
    import("../open-dashboard.ts"),
  ]);
  const out = file ?? `${basename(resolve(folder))}.html`;
  const { html, numTrajectories, numTotal } = await exportRun({ folder, maxTrajectories, openTokenizer });
  try {
    writeFileSync(out, html);
  } catch (cause) {
    throw new RerollError("FILE_INVALID", `${out} cannot be written: ${String(cause)}.`, {}, { cause });
  }
  const megabytes = (Buffer.byteLength(html) / 1e6).toFixed(1);
  console.log(`Wrote ${out} (${megabytes} MB) with ${numTrajectories} of ${numTotal} trajectories.`);
}
