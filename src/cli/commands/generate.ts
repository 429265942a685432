/** `reroll generate`: talk to a model in the terminal, or ask it one thing in a pipe. */
import { createInterface } from "node:readline/promises";
import { text as readAll } from "node:stream/consumers";
import { Command } from "commander";
import type { Chat } from "../../run/chat.ts";
import { device, numberIn, wholeNumber } from "../flag-values.ts";
import type { LoadServedOptions } from "../load-served.ts";

interface GenerateFlags extends LoadServedOptions {
  readonly prompt?: string;
  readonly system?: string;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly seed?: number;
}

/** The command, for the program to add. */
export const generateCommand = new Command("generate")
  .description("Talk to a model in the terminal.")
  .argument(
    "<model>",
    "folder of a run, of a checkpoint, or of a model in Hugging Face layout; a .gguf file; or a name on the Hub",
  )
  .option(
    "--prompt <text>",
    "say this, print the reply and end; without it and without a terminal, standard input is the prompt",
  )
  .option("--system <text>", "the system message")
  .option("--max-tokens <n>", "tokens per reply", wholeNumber(1), 512)
  .option("--temperature <t>", "0 takes the likeliest token", numberIn(0, 100), 0.7)
  .option("--top-p <p>", "only the likeliest tokens with this probability together", numberIn(0, 1), 1)
  .option("--seed <n>", "the same seed gives the same replies", wholeNumber(0))
  .option("--step <n>", "a checkpoint of a run (default: the best, else the latest)", wholeNumber(0))
  .option("--base <folder>", "the model that LoRA adapters belong to (default: the one recorded with them)")
  .option("--device <device>", "cpu, cuda or cuda:<n> (default: cuda where there is one)", device)
  .option("--tokenizer <folder>", "folder of the tokenizer (default: the model's)")
  .addHelpText(
    "after",
    `
In a conversation, /reset forgets what was said and /quit ends it. Ctrl-C cuts a reply off.

Examples:
  $ reroll generate runs/first
  $ reroll generate ./Qwen3-0.6B --prompt "Name three rivers." --temperature 0
  $ cat question.txt | reroll generate runs/first`,
  )
  .action(runGenerate);

async function runGenerate(path: string, flags: GenerateFlags): Promise<void> {
  const prompt = flags.prompt ?? (process.stdin.isTTY ? undefined : await readAll(process.stdin));
  // Imported only now, since this loads libtorch, which `--help` and a wrong flag need not wait for.
  const [{ loadServed }, { Chat }] = await Promise.all([import("../load-served.ts"), import("../../run/chat.ts")]);
  const served = await loadServed(path, flags);
  const { maxTokens, temperature, topP, seed, system } = flags;
  const chat = new Chat({
    generate: served.engine.generate,
    tokenizer: served.tokenizer,
    sampling: { maxTokens, temperature, topP, ...(seed !== undefined && { seed }) },
    ...(system !== undefined && { system }),
  });
  try {
    if (prompt === undefined) await converse(chat, path);
    else await answerOnce(chat, prompt.trimEnd());
  } finally {
    await served.engine.close();
  }
}

async function answerOnce(chat: Chat, prompt: string): Promise<void> {
  await chat.say(prompt, (text) => process.stdout.write(text));
  process.stdout.write("\n");
}

async function converse(chat: Chat, name: string): Promise<void> {
  console.log(`${name}. /reset forgets what was said, /quit ends.`);
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  let cut: AbortController | null = null;
  terminal.on("SIGINT", () => (cut === null ? terminal.close() : cut.abort()));
  terminal.setPrompt("> ");
  terminal.prompt();
  for await (const line of terminal) {
    const said = line.trim();
    if (said === "/quit") break;
    if (said === "/reset") chat.reset();
    else if (said !== "") {
      cut = new AbortController();
      const finish = await chat.say(said, (text) => process.stdout.write(text), cut.signal);
      cut = null;
      console.log(finish.kind === "length" ? " [cut off by --max-tokens]" : "");
    }
    terminal.prompt();
  }
  terminal.close();
}
