/** Starts the ranks of a test as processes, passes signals between them, and collects what they report. */
import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileScript } from "../../compile-script.ts";

/** What a rank process is told. */
export interface RankArguments {
  readonly rank: number;
  readonly worldSize: number;
  readonly storePath: string;
}

/** What a rank process tells. */
export type RankMessage =
  | { readonly kind: "report"; readonly value: unknown }
  | { readonly kind: "signal"; readonly name: string };

/** How a rank process ended. */
export interface RankOutcome {
  readonly reports: readonly unknown[];
  readonly exitCode: number | null;
  readonly exitSignal: string | null;
  readonly errors: string;
}

/** Runs test/torch/ranks/<script> in `worldSize` processes until all have ended. A signal of one reaches all. */
export async function launchRanks(script: string, worldSize: number): Promise<RankOutcome[]> {
  const folder = mkdtempSync(join(tmpdir(), "reroll-ranks-"));
  const storePath = join(folder, "store");
  const compiled = await compileScript(new URL(script, import.meta.url));
  const children = Array.from({ length: worldSize }, (_, rank) => startRank(compiled, { rank, worldSize, storePath }));
  for (const child of children) {
    child.on("message", (message: RankMessage) => {
      if (message.kind === "signal") for (const other of children) pass(message, other);
    });
  }
  try {
    return await Promise.all(children.map(outcomeOf));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

type RankProcess = ReturnType<typeof fork>;

/** A rank that has ended, as some do on purpose, needs no signal. */
function pass(message: RankMessage, rank: RankProcess): void {
  if (rank.connected) rank.send(message, () => undefined);
}

function startRank(script: string, rankArguments: RankArguments): RankProcess {
  return fork(script, [JSON.stringify(rankArguments)], {
    execArgv: [],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
}

async function outcomeOf(child: RankProcess): Promise<RankOutcome> {
  const reports: unknown[] = [];
  let errors = "";
  child.on("message", (message: RankMessage) => {
    if (message.kind === "report") reports.push(message.value);
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
  });
  return new Promise((resolve) => {
    child.on("close", (exitCode, exitSignal) => resolve({ reports, exitCode, exitSignal, errors }));
  });
}
