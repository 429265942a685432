/** Reads calls of /completions: the prompt is what the user said, and its continuation the reply. Calls with several prompts are not read. */
import { type Fields, listOf, messageOf, type ReadExchange, textOr } from "./exchange.ts";

export const readCompletionCall: ReadExchange = ({ prompt, model }, answer) => {
  const text = Array.isArray(prompt) && prompt.length === 1 ? prompt[0] : prompt;
  if (typeof text !== "string" || (answer.kind === "events" && !answer.isDone)) return undefined;
  const bodies = answer.kind === "whole" ? [answer.body] : answer.events;
  const choices = bodies.flatMap(firstChoice);
  if (choices.length === 0) return undefined;
  const usage = bodies.findLast((body) => body.usage != null)?.usage ?? null;
  const said = choices.map((choice) => textOr(choice.text, "")).join("");
  const finish = textOr(choices.at(-1)?.finish_reason, null);
  return {
    asked: { messages: [messageOf("user", text)], tools: [], model: textOr(model, null) },
    answered: { reply: messageOf("assistant", said), finish, usage },
  };
};

function firstChoice({ choices }: Fields): readonly Fields[] {
  return listOf(choices).filter(({ index = 0 }) => index === 0);
}
