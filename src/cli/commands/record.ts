/** `reroll record`: stands in front of the server that an agent in production talks to, and keeps its conversations as a dataset. */
import { Command } from "commander";
import { wholeNumber } from "../flag-values.ts";
import { record } from "../record/record.ts";
import { stopSignal } from "../stop-signal.ts";

interface RecordFlags {
  readonly out: string;
  readonly port: number;
  readonly host: string;
  readonly idle: number;
}

/** The command, for the program to add. */
export const recordCommand = new Command("record")
  .description("Keep the conversations of an agent in production, as data to train from.")
  .argument("<upstream>", "base URL of the server that the agent talks to, such as https://api.example.com/v1")
  .option("--out <file>", "JSON lines to add the conversations to", "conversations.jsonl")
  .option("--port <n>", "port to listen on; 0 takes a free one", wholeNumber(0, 65535), 8787)
  .option("--host <address>", "address to listen on", "127.0.0.1")
  .option("--idle <seconds>", "silence after which a conversation is over and written", wholeNumber(1), 60)
  .addHelpText(
    "after",
    `
Examples:
  $ reroll record https://api.example.com/v1 --out conversations.jsonl
  Then give the agent http://127.0.0.1:8787/v1 as its base URL. Its keys are passed on and not kept.`,
  )
  .action(runRecord);

async function runRecord(upstream: string, { idle, ...flags }: RecordFlags): Promise<void> {
  const print = (line: string) => console.log(line);
  const stop = stopSignal(() => print("Stopping: open conversations are written."));
  try {
    await record({ upstream, ...flags, idleSeconds: idle, signal: stop.signal, print });
  } finally {
    stop.release();
  }
}
