#!/usr/bin/env node
/** The `reroll` command. */
import { parseArgs } from "node:util";
import { RerollError } from "../errors/reroll-error.ts";
import { serveModel } from "./serve-model.ts";

const usage = `Usage: reroll serve <model folder> [options]

Serves a model in Hugging Face layout behind an OpenAI-compatible address.

  --port <n>          default 8000; 0 takes a free one
  --host <address>    default 127.0.0.1; another one needs an API key
  --api-key <key>     clients must send it as a bearer token
  --name <name>       what clients call the model; default: the name of the folder
  --device <device>   cpu or cuda; default cuda where there is one
  --dtype <type>      float32, bfloat16 or float16; default: what the files hold
  --context <n>       tokens of prompt and reply; default: the model's, at most 4,096
  --max-running <n>   requests that run at the same time`;

const [command, ...rest] = process.argv.slice(2);
try {
  if (command === "serve") await serveCommand(rest);
  else if (command === undefined || command === "help" || command === "--help") console.log(usage);
  else fail(`There is no command "${command}". Commands: serve.\n\n${usage}`);
} catch (error) {
  if (!(error instanceof RerollError) && !(error instanceof TypeError)) throw error;
  fail(error.message);
}

async function serveCommand(args: string[]): Promise<void> {
  const { positionals, values } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      port: { type: "string" },
      host: { type: "string" },
      "api-key": { type: "string" },
      name: { type: "string" },
      device: { type: "string" },
      dtype: { type: "string" },
      context: { type: "string" },
      "max-running": { type: "string" },
      help: { type: "boolean" },
    },
  });
  const [folder] = positionals;
  if (values.help === true || folder === undefined) return console.log(usage);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const { closed } = await serveModel(folder, {
    ...values,
    apiKey: values["api-key"],
    maxRunning: values["max-running"],
    signal: stop.signal,
  });
  await closed;
}

function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}
