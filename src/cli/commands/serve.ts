/** `reroll serve`: a model behind an OpenAI-compatible address, until SIGINT or SIGTERM. */
import { resolve } from "node:path";
import { Command, Option } from "commander";
import { RerollError } from "../../errors/reroll-error.ts";
import { device, wholeNumber } from "../flag-values.ts";
import { checkListenFlags, type ListenFlags, withListenFlags } from "../listen-flags.ts";
import type { LoadServedOptions } from "../load-served.ts";

interface ServeFlags extends LoadServedOptions, ListenFlags {
  readonly name?: string;
  readonly weightsRoot?: string;
}

/** The command, for the program to add. */
export const serveCommand = withListenFlags(
  new Command("serve")
    .description("Serve a model behind an OpenAI-compatible address.")
    .argument(
      "<model>",
      "folder of a run, of a checkpoint, or of a model in Hugging Face layout; a .gguf file; or a name on the Hub",
    )
    .option("--step <n>", "a checkpoint of a run (default: the best, else the latest)", wholeNumber(0))
    .option("--base <folder>", "the model that LoRA adapters belong to (default: the one recorded with them)"),
  { port: 8000, guests: "clients" },
)
  .option("--name <name>", "what clients call the model (default: the name of the folder)")
  .option(
    "--weights-root <folder>",
    "take new weights from folders below this one (POST /v1/weights); needs an API key",
  )
  .option("--tokenizer <folder>", "folder of the tokenizer (default: the model's)")
  .option("--device <device>", "cpu, cuda or cuda:<n> (default: cuda where there is one)", device)
  .option("--tensor <n>", "devices that split the model, from --device on (default: 1)", wholeNumber(1))
  .option("--expert <n>", "devices that have some of the experts each (default: 1)", wholeNumber(1))
  .addOption(
    new Option("--dtype <type>", "type to compute in (default: what the files hold)").choices([
      "float32",
      "bfloat16",
      "float16",
    ]),
  )
  .option("--context <n>", "tokens of prompt and reply (default: the model's, at most 4096)", wholeNumber(2))
  .option(
    "--max-running <n>",
    "requests that run at the same time (default: 256 on a GPU, 64 on the CPU)",
    wholeNumber(1),
  )
  .option("--max-queued <n>", "requests that may wait; more are told to come back (default: 16384)", wholeNumber(1))
  .addHelpText(
    "after",
    `
Examples:
  $ reroll serve ./Qwen3-0.6B
  $ reroll serve runs/first
  $ reroll serve ./Qwen2.5-72B-Instruct --tensor 4
  $ reroll serve ./Qwen3-0.6B --host 0.0.0.0 --api-key-file ./key --port 9000
  $ curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \\
      -d '{"messages": [{"role": "user", "content": "Hello"}]}'`,
  )
  .action(runServe);

async function runServe(model: string, flags: ServeFlags): Promise<void> {
  const { port, host } = flags;
  const apiKey = await checkListenFlags(flags);
  if (flags.weightsRoot !== undefined && apiKey === undefined) {
    throw new RerollError(
      "INVALID_OPTION",
      "--weights-root needs --api-key or --api-key-file: whoever may give weights rules the model.",
    );
  }
  // Imported only now, since this loads libtorch, which `--help` and a wrong flag need not wait for.
  const [{ loadServed }, { serve }] = await Promise.all([import("../load-served.ts"), import("../serve.ts")]);
  const served = await loadServed(model, flags);
  const load = (folder: string, version: number) => served.engine.loadWeights(version, folder);
  const stop = new AbortController();
  // Not before: until here the system ends the process at once. A second signal does so again.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const { closed } = await serve({
    ...served,
    ...{ port, host, signal: stop.signal },
    modelName: flags.name ?? served.name,
    ...(flags.weightsRoot === undefined ? {} : { weights: { root: resolve(flags.weightsRoot), load } }),
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  await closed;
}
