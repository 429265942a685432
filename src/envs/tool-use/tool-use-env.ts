/**
 * A conversation in which the model may call tools, in whichever format it writes them (`src/chat/tool-calls`).
 *
 * The prompt's messages are the conversation so far. Each reply with calls is answered by one tool message per call; a reply
 * without calls is the answer and ends the episode. What it is worth, reward functions say afterwards: the reward here is 0.
 * Turns build on each other, so this environment is for agents that keep the whole conversation.
 */

import type { ToolCall } from "../../chat/tool-calls/reply-part.ts";
import { toolCallFormatIn, toolCallFormats } from "../../chat/tool-calls/table.ts";
import { ToolCallReader } from "../../chat/tool-calls/tool-call-reader.ts";
import type { ChatMessage } from "../../flow/chat-message.ts";
import type { Prompt } from "../../flow/prompt.ts";
import type { Random } from "../../random/random.ts";
import { episodeEnded } from "../episode-ended.ts";
import { openConversation } from "../question-answer/question-answer.ts";
import type { EnvStep, Opening, Reply, TextEnv } from "../text-env.ts";
import { callTool, type Tool, type ToolResult, toChatTool } from "./tool.ts";

/** The options that matter to one episode. */
export interface ToolUseEnvOptions {
  /** A system message for prompts that have none. */
  readonly system?: string;
  /** Replies before the episode is cut off. */
  readonly maxTurns: number;
  /** Calls in one reply; further ones are answered with an error. */
  readonly maxCallsPerTurn: number;
  readonly toolTimeoutMs: number;
  /** Longer results are cut, with a note. */
  readonly maxResultChars: number;
}

/** One conversation. Tools are shared with other episodes. */
export class ToolUseEnv implements TextEnv {
  readonly #prompt: Prompt;
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #options: ToolUseEnvOptions;
  #numTurns = 0;
  #numCalls = 0;
  #hasEnded = false;

  constructor(prompt: Prompt, tools: readonly Tool[], options: ToolUseEnvOptions) {
    this.#prompt = prompt;
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#options = options;
  }

  start(): Opening {
    return {
      ...openConversation(this.#prompt, this.#options.system),
      tools: [...this.#tools.values()].map(toChatTool),
    };
  }

  async step({ text }: Reply, signal: AbortSignal): Promise<EnvStep> {
    if (this.#hasEnded) throw episodeEnded("tool-use");
    this.#numTurns++;
    const { calls, isBroken } = readCalls(text);
    const isAnswer = calls.length === 0 && !isBroken;
    this.#hasEnded = isAnswer || this.#numTurns >= this.#options.maxTurns;
    if (this.#hasEnded) {
      // Calls of the last turn are not made: nobody would read what they give.
      return {
        kind: isAnswer ? "terminated" : "truncated",
        reward: 0,
        metrics: { valid_action: Number(!isBroken), total_tool_calls: this.#numCalls },
      };
    }
    const results = await this.#answer(calls, signal);
    const messages = isBroken ? [...results.map(toMessage), brokenCall] : results.map(toMessage);
    return {
      kind: "continues",
      reward: 0,
      metrics: {
        valid_action: Number(!isBroken),
        tool_calls: results.length,
        tool_errors: results.filter(({ result }) => result.kind === "error").length,
      },
      observation: { messages },
    };
  }

  /** An answer, or a call of the calculator where there is one. */
  randomReply(random: Random): string {
    if (!this.#tools.has("calculator") || random.integer(3) === 0) return String(random.integer(100));
    const expression = `${random.integer(100)} ${random.pick(["+", "-", "*", "/"])} ${random.integer(10)}`;
    return `<tool_call>\n${JSON.stringify({ name: "calculator", arguments: { expression } })}\n</tool_call>`;
  }

  /** What is best is known to the rewards only. */
  oracleReply(): null {
    return null;
  }

  /** In order, because a later call may build on what an earlier one has done. */
  async #answer(calls: readonly ToolCall[], signal: AbortSignal): Promise<CallResult[]> {
    const results: CallResult[] = [];
    for (const [i, call] of calls.entries()) {
      const result = i < this.#options.maxCallsPerTurn ? await this.#call(call, signal) : tooManyCalls;
      results.push({ call, result: this.#cut(result) });
    }
    this.#numCalls += calls.length;
    return results;
  }

  async #call({ function: { name, arguments: json } }: ToolCall, signal: AbortSignal): Promise<ToolResult> {
    const tool = this.#tools.get(name);
    if (tool === undefined) {
      const known = [...this.#tools.keys()].join(", ");
      return { kind: "error", text: `There is no tool "${name}". There are: ${known}.` };
    }
    const given = parseObject(json);
    if (given === undefined) return { kind: "error", text: `The arguments of ${name} are not a JSON object.` };
    return callTool(tool, given, { signal, timeoutMs: this.#options.toolTimeoutMs });
  }

  #cut({ kind, text }: ToolResult): ToolResult {
    const { maxResultChars } = this.#options;
    if (text === "") return { kind, text: "(no output)" };
    if (text.length <= maxResultChars) return { kind, text };
    return { kind, text: `${text.slice(0, maxResultChars)}\n(cut: ${text.length} characters in all)` };
  }
}

interface CallResult {
  readonly call: ToolCall;
  readonly result: ToolResult;
}

const tooManyCalls: ToolResult = { kind: "error", text: "Too many calls in one reply: this one was not made." };

export const brokenCall: ChatMessage = {
  role: "tool",
  content: "Error: a call could not be read. Write it in the form that the instructions show.",
};

/** `isBroken`: something began as a call and is none. */
export function readCalls(text: string): { readonly calls: readonly ToolCall[]; readonly isBroken: boolean } {
  let count = 0;
  const reader = new ToolCallReader(() => `call_${count++}`, toolCallFormats[toolCallFormatIn(text)]);
  const parts = [...reader.push(text), ...reader.end()];
  return {
    calls: parts.flatMap((part) => (part.kind === "tool-call" ? [part.call] : [])),
    isBroken: reader.numBroken > 0,
  };
}

function toMessage({ call, result: { kind, text } }: CallResult): ChatMessage {
  return {
    role: "tool",
    name: call.function.name,
    tool_call_id: call.id,
    content: kind === "error" ? `Error: ${text}` : text,
  };
}

export function parseObject(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    // A policy under training writes broken arguments all the time: the model is told so.
    return undefined;
  }
}
