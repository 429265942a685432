#!/usr/bin/env node
/** The `reroll` command: words in, a process exit code out. */
import { runCli } from "./run-cli.ts";

process.exitCode = await runCli(process.argv.slice(2));
