/** A command called in this process: far cheaper than starting one, for tests that need no process of their own. */
import { vi } from "vitest";
import { runCli } from "../../src/cli/run-cli.ts";
import type { Ended } from "./run-reroll.ts";

/** Runs a command, and keeps what it prints. */
export async function callReroll(...words: readonly string[]): Promise<Ended> {
  const printed = { stdout: "", stderr: "" };
  const keep = (stream: keyof typeof printed) => (text: unknown) => {
    printed[stream] += `${String(text)}\n`;
  };
  const write = (stream: keyof typeof printed) => (text: string | Uint8Array) => {
    printed[stream] += String(text);
    return true;
  };
  const spies = [
    vi.spyOn(console, "log").mockImplementation(keep("stdout")),
    vi.spyOn(console, "error").mockImplementation(keep("stderr")),
    vi.spyOn(process.stdout, "write").mockImplementation(write("stdout")),
    vi.spyOn(process.stderr, "write").mockImplementation(write("stderr")),
  ];
  try {
    return { code: await runCli(words), ...printed };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
