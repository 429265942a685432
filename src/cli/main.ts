#!/usr/bin/env node
/**
 * The `reroll` command: words in, a process exit code out.
 *
 * A command is over when it says so. What code of others has left open, such as the socket or timer of an agent that hangs, keeps the
 * process for a moment, in which output is written, and no longer.
 */
import { runCli } from "./run-cli.ts";

// A terminal that was closed, or a pipe that nobody reads any more, takes no words. What a run has to save matters more than those.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
const GRACE_MS = 1000;

process.exitCode = await runCli(process.argv.slice(2));
setTimeout(() => process.exit(), GRACE_MS).unref();
