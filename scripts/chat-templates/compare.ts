/**
 * Chat templates of a folder against what transformers renders, and which of them rewrite history.
 *
 * node --import tsx scripts/chat-templates/compare.ts FOLDER rendered.json
 * `render.py` makes the second. Prints a row for each template, and fails where a text differs.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { renderChat } from "../../src/chat/template/chat-template.ts";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer, type Tokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { toolCallFormatOf } from "../../src/chat/tool-calls/table.ts";
import { RerollError } from "../../src/errors/reroll-error.ts";
import type { ChatMessage, ChatTool } from "../../src/flow/chat-message.ts";

interface Case {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[];
  readonly prompt?: boolean;
}

/** What the model writes, and the tool answer that may come before the next question. */
const THOUGHT = "<think>\nHm.\n</think>\n\nFine.";
const CALLED: ChatMessage = { role: "tool", name: "f", tool_call_id: "abcdefghi", content: "rain" };

const [folder = "", rendered = ""] = process.argv.slice(2);
const cases: Record<string, Case> = JSON.parse(readFileSync(new URL("conversations.json", import.meta.url), "utf8"));
const expected: Record<string, Record<string, string | null>> = JSON.parse(readFileSync(rendered, "utf8"));
const bytes = createTokenizer(byteTokenizerFiles(), "bytes");

let numDifferent = 0;
for (const file of readdirSync(folder)
  .filter((name) => name.endsWith(".jinja"))
  .sort()) {
  const source = readFileSync(join(folder, file), "utf8");
  const chatTemplates = new Map([["default", source]]);
  const tokenizer: Tokenizer = { ...bytes, chatTemplates, namedTokens: { bos_token: "<s>", eos_token: "</s>" } };
  const different = Object.entries(cases).flatMap(([name, one]) => {
    const [own, theirs] = [render(tokenizer, one), expected[file]?.[name] ?? null];
    return own.text === theirs ? [] : [`${name}: ${difference(own.text ?? own.error, theirs)}`];
  });
  numDifferent += different.length;
  const format = source.includes("tool") ? toolCallFormatOf(tokenizer) : "none";
  const history = [keeps(tokenizer, "Fine.", []), keeps(tokenizer, THOUGHT, []), keeps(tokenizer, THOUGHT, [CALLED])];
  console.log([file.replace(/\.jinja$/, ""), different.length, format, ...history].join(" | "));
  for (const line of different) console.log(`    ${line}`);
}
console.log(`${numDifferent} texts differ`);
process.exitCode = numDifferent === 0 ? 0 : 1;

/** Whether the prompt of the next turn begins with that of this turn and the reply, as it was written. */
function keeps(tokenizer: Tokenizer, reply: string, answers: readonly ChatMessage[]): string {
  const asked: ChatMessage = { role: "user", content: "Hi" };
  const next = answers.length > 0 ? answers : [{ role: "user", content: "So?" }];
  const before = render(tokenizer, { messages: [asked], prompt: true }).text;
  const after = render(tokenizer, {
    messages: [asked, { role: "assistant", content: reply }, ...next],
    prompt: true,
  }).text;
  if (before === null || after === null) return "refused";
  // A prompt may have opened the thinking that the reply goes on with.
  const opened = /<think>\s*$/.test(before) ? reply.replace(/^<think>\n/, "") : reply;
  return after.startsWith(before + opened) ? "kept" : "rewritten";
}

function render(tokenizer: Tokenizer, { messages, tools, prompt = false }: Case) {
  try {
    const options = { addGenerationPrompt: prompt, now: new Date(), ...(tools && { tools }) };
    return { text: renderChat(tokenizer, messages, options), error: "" };
  } catch (cause) {
    if (cause instanceof RerollError) return { text: null, error: cause.message };
    throw cause;
  }
}

/** Where two texts part. */
function difference(own: string, theirs: string | null): string {
  if (theirs === null) return `they refuse, ours is ${JSON.stringify(own.slice(-60))}`;
  let at = 0;
  while (at < own.length && own[at] === theirs[at]) at++;
  return `at ${at}, ours ${JSON.stringify(own.slice(Math.max(0, at - 20), at + 160))}, theirs ${JSON.stringify(theirs.slice(Math.max(0, at - 20), at + 40))}`;
}
