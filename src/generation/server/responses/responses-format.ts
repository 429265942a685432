/** Answers of /v1/responses, whole and as events. */
import type { ReplyPart } from "../../../chat/tool-calls/reply-part.ts";
import type { Finish, SampledTokens } from "../../generate.ts";
import type { ChoiceResult, ReplyFormat, UsageFields } from "../reply-format.ts";
import { ItemEvents } from "./item-events.ts";
import { itemOf, type OutputItem, outputText } from "./output-items.ts";

interface ResponsesFormatOptions {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  /** What the answer says again of its request. */
  readonly echo: object;
  /** Fields that only this server has, such as what the session's prefix check found. */
  readonly extensions: object;
  /** Log-probs of tokens as OpenAI shows them; absent when nobody asked. */
  readonly logprobsOf?: (tokens: SampledTokens) => readonly object[];
  /** Told of the answer before the client is. */
  readonly onAnswer: (body: object, output: readonly OutputItem[]) => void;
}

export function createResponsesFormat(options: ResponsesFormatOptions): ReplyFormat {
  const { logprobsOf = () => [], onAnswer } = options;
  const events = new ItemEvents(keyOf(options.id));
  let numEvents = 0;
  const numbered = (event: object) => ({ ...event, sequence_number: numEvents++ });
  const opening = () => {
    const response = bodyOf(options, "in_progress");
    return [
      { type: "response.created", response },
      { type: "response.in_progress", response },
    ];
  };
  const finalBody = (results: readonly ChoiceResult[], usage: UsageFields, output: readonly OutputItem[]) => {
    const finish = results[0]?.generation.finish;
    const body = bodyOf(options, statusOf(finish), { output, usage: usageFields(usage), ...reasonOf(finish) });
    onAnswer(body, output);
    return body;
  };
  return {
    chunks: ({ parts, tokens, isFirst }) =>
      [...(isFirst ? opening() : []), ...events.push(parts, logprobsOf(tokens))].map(numbered),
    end(results, usage) {
      const closing = events.end(statusOf(results[0]?.generation.finish));
      const response = finalBody(results, usage, events.items);
      return [...closing, { type: `response.${response.status}`, response }].map(numbered);
    },
    failure: ({ message, code, param }) => numbered({ type: "error", code, message, param }),
    whole: (results, usage) => finalBody(results, usage, wholeOutput(options, results, logprobsOf)),
  };
}

function wholeOutput(
  { id }: ResponsesFormatOptions,
  results: readonly ChoiceResult[],
  logprobsOf: (tokens: SampledTokens) => readonly object[],
): readonly OutputItem[] {
  const [result] = results;
  if (result === undefined) return [];
  const { visible, generation } = result;
  const parts: readonly ReplyPart[] = visible.parts.length > 0 ? visible.parts : [{ kind: "text", text: "" }];
  const items = parts.map((part, index) => itemOf(part, index, keyOf(id), statusOf(generation.finish)));
  const firstText = items.find((item) => item.type === "message");
  return items.map((item) =>
    item === firstText && item.type === "message"
      ? { ...item, content: [outputText(item.content[0]?.text ?? "", logprobsOf(generation))] }
      : item,
  );
}

function keyOf(id: string): string {
  return id.replace(/^resp_/, "");
}

type Status = "in_progress" | "completed" | "incomplete";

function bodyOf(
  { id, created, model, echo, extensions }: ResponsesFormatOptions,
  status: Status,
  more: object = { output: [], usage: null },
) {
  return {
    ...{ id, object: "response", created_at: created, status, error: null, incomplete_details: null, model },
    ...echo,
    ...more,
    ...extensions,
  };
}

function statusOf(finish: Finish | undefined): "completed" | "incomplete" {
  return finish?.kind === "stop" ? "completed" : "incomplete";
}

function reasonOf(finish: Finish | undefined): object {
  return finish?.kind === "length" ? { incomplete_details: { reason: "max_output_tokens" } } : {};
}

function usageFields({ prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details }: UsageFields): object {
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: prompt_tokens_details,
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens,
  };
}
