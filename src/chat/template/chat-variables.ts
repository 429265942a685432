/**
 * The variables that a chat template is rendered with.
 *
 * In: messages, tools and options. Out: plain JSON under the names that transformers uses.
 */

import { RerollError } from "../../errors/reroll-error.ts";
import type { ChatMessage, ChatTool, ChatToolCall } from "../../flow/chat-message.ts";

export interface ChatVariableOptions {
  readonly tools?: readonly ChatTool[];
  /** Ends with the opening of an assistant message, for the model to go on from. Default false. */
  readonly addGenerationPrompt?: boolean;
  /** Further variables of the template, such as `enable_thinking: false`. They win over named tokens such as `bos_token`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** @param source the template, which decides what form it wants tool arguments in */
export function chatVariables(
  source: string,
  messages: readonly ChatMessage[],
  { tools, addGenerationPrompt = false, variables = {} }: ChatVariableOptions,
): Readonly<Record<string, unknown>> {
  refuseReserved(variables);
  const wantsArgumentText = /arguments\s+is\s+(not\s+)?string/.test(source);
  return plainJson({
    documents: null,
    ...variables,
    messages: messages.map((message) => messageForTemplate(message, wantsArgumentText)),
    // A template may ask whether tools are defined or none; transformers always defines them.
    tools: tools ?? null,
    add_generation_prompt: addGenerationPrompt,
  });
}

const RESERVED_NAMES: ReadonlySet<string> = new Set([
  ...["messages", "tools", "add_generation_prompt", "strftime_now", "raise_exception", "range"],
  ...["true", "True", "false", "False", "none", "None"],
]);

function refuseReserved(variables: Readonly<Record<string, unknown>>): void {
  const taken = Object.keys(variables).find((name) => RESERVED_NAMES.has(name));
  if (taken === undefined) return;
  throw new RerollError(
    "CHAT_VARIABLE_RESERVED",
    `variables.${taken} is a name that chat templates get from elsewhere. Use the option of renderChat for it, or another name.`,
    { taken },
  );
}

/** Templates of the gpt-oss family read the reasoning under `thinking`; transformers fills in both names. */
function messageForTemplate(message: ChatMessage, wantsArgumentText: boolean): Readonly<Record<string, unknown>> {
  const { reasoning_content, tool_calls } = message;
  return {
    ...(typeof reasoning_content === "string" ? { thinking: reasoning_content } : {}),
    ...message,
    ...(tool_calls === undefined || wantsArgumentText ? {} : { tool_calls: tool_calls.map(parseArguments) }),
  };
}

function parseArguments(call: ChatToolCall): ChatToolCall {
  const text = call.function.arguments;
  if (typeof text !== "string") return call;
  try {
    return { ...call, function: { ...call.function, arguments: JSON.parse(text) } };
  } catch (cause) {
    throw new RerollError(
      "TOOL_ARGUMENTS_INVALID",
      `tool_calls of "${call.function.name}" has arguments that are not JSON: got ${text}. Give the arguments as an object.`,
      { call },
      { cause },
    );
  }
}

/** Templates see JSON and nothing else: a field that is undefined must be absent, not there without a value. */
function plainJson(variables: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return JSON.parse(JSON.stringify(variables));
}
