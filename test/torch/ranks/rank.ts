/** What a rank process of a test has: its rank, the group, and the line to the test. */
import { RerollError } from "../../../src/errors/reroll-error.ts";
import type { ProcessGroup } from "../../../src/torch/distributed/process-group.ts";
import { joinGroup, openStore } from "../../../src/torch/distributed/rendezvous.ts";
import type { RankArguments, RankMessage } from "./launch-ranks.ts";

const rankArguments: RankArguments = JSON.parse(process.argv[2] ?? "{}");
export const { rank, worldSize } = rankArguments;

const received = new Set<string>();
const waiting = new Map<string, () => void>();
process.on("message", (message: RankMessage) => {
  if (message.kind !== "signal") return;
  received.add(message.name);
  waiting.get(message.name)?.();
});

/** Joins the group of the test over its file store. */
export async function joinTestGroup(timeoutMs: number): Promise<ProcessGroup> {
  const store = await openStore({ type: "file", path: rankArguments.storePath, worldSize });
  return joinGroup({ store, backend: "gloo", rank, worldSize, timeoutMs, listenAt: { host: "127.0.0.1" } });
}

/** Hands a value to the test. */
export function report(value: unknown): void {
  tell({ kind: "report", value });
}

/** Tells all ranks. */
export function signal(name: string): void {
  tell({ kind: "signal", name });
}

export async function waitForSignal(name: string): Promise<void> {
  if (!received.has(name)) await new Promise<void>((resolve) => waiting.set(name, resolve));
}

/** Lets the process end: the line to the test keeps it alive. */
export function leave(): void {
  process.disconnect?.();
}

/** The code and message that a promise rejects with. */
export async function failureOf(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof RerollError) return { code: error.code, message: error.message };
    throw error;
  }
  return { code: "NONE", message: "" };
}

function tell(message: RankMessage): void {
  process.send?.(message);
}
