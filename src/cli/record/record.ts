/**
 * `reroll record`, until its signal: a recorder in front of a server, and a file that grows by conversations.
 *
 * Texts are written without the keys that came along with calls, wherever they turn up in them.
 */
import { randomUUID } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { redactText } from "../../errors/redact-text.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { Conversations } from "./conversations.ts";
import { startRecordingProxy } from "./recording-proxy.ts";

interface RecordOptions {
  readonly upstream: string;
  /** JSON lines to add to. */
  readonly out: string;
  readonly host: string;
  readonly port: number;
  /** Silence after which a conversation is over. */
  readonly idleSeconds: number;
  readonly signal: AbortSignal;
  readonly print: (line: string) => void;
}

/** Resolves after the signal, when every conversation is written. */
export async function record({ upstream, out, host, port, idleSeconds, signal, print }: RecordOptions): Promise<void> {
  await expectWritable(out);
  let writing: Promise<void> = Promise.resolve();
  const write = (row: object) => {
    const line = JSON.stringify(row, (_, value) => (typeof value === "string" ? redactText(value) : value));
    // The agent goes on: what it does matters more than what is kept of it.
    const onError = (cause: unknown) =>
      print(`${out} cannot be written, and a conversation is lost: ${String(cause)}.`);
    writing = writing.then(() => appendFile(out, `${line}\n`)).catch(onError);
  };
  const conversations = new Conversations({ write, idleMs: 1000 * idleSeconds, newId: randomUUID });
  const proxy = await startRecordingProxy({ upstream, host, port, conversations, tell: print });
  const sweep = setInterval(() => conversations.closeIdle(Date.now()), 1000);
  print(
    `Recording: give the agent ${proxy.baseURL} as its base URL. Calls go on to ${upstream}, conversations to ${out}.`,
  );
  if (!signal.aborted) {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  }
  clearInterval(sweep);
  await proxy.close();
  conversations.closeAll();
  await writing;
  print(`Kept ${conversations.numWritten} conversations with ${conversations.numCalls} calls in ${out}.`);
}

/** A recorder that finds out after an hour that it cannot write has kept nothing. */
async function expectWritable(out: string): Promise<void> {
  await appendFile(out, "").catch((cause: unknown) => {
    throw new RerollError("INVALID_OPTION", `--out ${out} cannot be written: ${String(cause)}.`, {}, { cause });
  });
}
