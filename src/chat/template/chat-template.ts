/**
 * From a conversation to the text and the ids that a model is given.
 *
 * In: messages and tools. Out: what transformers' `apply_chat_template` gives. `{% generation %}` blocks are rendered and
 * give no mask: which tokens the loss counts is known from who wrote them, never from the template.
 */

import { RerollError } from "../../errors/reroll-error.ts";
import type { ChatMessage } from "../../flow/chat-message.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { type ChatVariableOptions, chatVariables } from "./chat-variables.ts";
import { JinjaTemplate, TemplateRefusal } from "./jinja-template.ts";

export interface ChatOptions extends ChatVariableOptions {
  /** Which template, where the tokenizer has several. Default: "tool_use" when there are tools and it exists, else "default". */
  readonly template?: string;
  /** The time that `strftime_now` formats, in UTC. Default: none, so the template does not know the date. */
  readonly now?: Date;
}

/** Renders a conversation as text. */
export function renderChat(tokenizer: Tokenizer, messages: readonly ChatMessage[], options: ChatOptions = {}): string {
  const name = chooseTemplate(tokenizer, options);
  const template = compiledTemplate(tokenizer, name);
  const variables = chatVariables(template.source, messages, {
    ...options,
    variables: { ...tokenizer.namedTokens, ...options.variables },
  });
  try {
    return template.render(variables, options.now);
  } catch (cause) {
    // Templates of tool users join the content to other text, and OpenAI's format has null for a message that only calls.
    const isWithout = ({ content }: ChatMessage) => content === null;
    if (!(cause instanceof TemplateRefusal) && messages.some(isWithout)) {
      const filled = messages.map((message) => (isWithout(message) ? { ...message, content: "" } : message));
      return renderChat(tokenizer, filled, options);
    }
    throw renderError(cause, template, `Chat template "${name}" of ${tokenizer.name}`);
  }
}

/** Renders a conversation and encodes it. Adds no special tokens: the template has written them. */
export function encodeChat(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  options: ChatOptions = {},
): Int32Array {
  return tokenizer.encode(renderChat(tokenizer, messages, options));
}

function chooseTemplate({ chatTemplates, name }: Tokenizer, { template, tools }: ChatOptions): string {
  const chosen = template ?? (tools !== undefined && chatTemplates.has("tool_use") ? "tool_use" : "default");
  if (chatTemplates.has(chosen)) return chosen;
  const known = [...chatTemplates.keys()].sort();
  throw new RerollError(
    "CHAT_TEMPLATE_MISSING",
    known.length === 0
      ? `${name} has no chat template. Put a chat_template.jinja beside its tokenizer.json, or use the tokenizer of an instruct model.`
      : `${name} has no chat template "${chosen}". It has: ${known.join(", ")}. Set template to one of these.`,
    { name, chosen, known },
  );
}

const compiledTemplates = new WeakMap<Tokenizer, Map<string, JinjaTemplate>>();

/** Parses each template once for each tokenizer. */
function compiledTemplate(tokenizer: Tokenizer, name: string): JinjaTemplate {
  const byName = compiledTemplates.get(tokenizer) ?? new Map<string, JinjaTemplate>();
  const template = byName.get(name) ?? compile(tokenizer, name);
  compiledTemplates.set(tokenizer, byName.set(name, template));
  return template;
}

function compile(tokenizer: Tokenizer, name: string): JinjaTemplate {
  try {
    return new JinjaTemplate(tokenizer.chatTemplates.get(name) ?? "");
  } catch (cause) {
    throw new RerollError(
      "CHAT_TEMPLATE_BROKEN",
      `Chat template "${name}" of ${tokenizer.name} is not valid Jinja: ${messageOf(cause)}. Correct it in chat_template.jinja or tokenizer_config.json.`,
      { name },
      { cause },
    );
  }
}

function renderError(cause: unknown, template: JinjaTemplate, what: string): RerollError {
  if (cause instanceof TemplateRefusal) {
    const { message: reason } = cause;
    return new RerollError("CHAT_REFUSED", `${what} refuses these messages: ${reason}`, { reason }, { cause });
  }
  const hint = template.source.includes("strftime_now") ? " It asks for the date: set the option now." : "";
  return new RerollError("CHAT_TEMPLATE_BROKEN", `${what} failed: ${messageOf(cause)}.${hint}`, {}, { cause });
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
