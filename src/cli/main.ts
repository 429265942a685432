#!/usr/bin/env node
/** The `reroll` command: words in, a process exit code out. */
import { runCli } from "./run-cli.ts";

// A terminal that was closed, or a pipe that nobody reads any more, takes no words. What a run has to save matters more than those.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

process.exitCode = await runCli(process.argv.slice(2));
