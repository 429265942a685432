/** What `checkEnv` asks of single messages and steps, wherever they come from. */
import { isDeepStrictEqual } from "node:util";
import type { ChatMessage } from "../flow/chat-message.ts";
import { isSoundReward, SOUND_REWARD } from "../flow/sound-numbers.ts";
import type { EnvStep } from "./text-env.ts";

type Report = (rule: string, text: string) => void;

/** Messages must be something that the model can read and that files can hold. */
export function checkMessages(what: string, messages: readonly ChatMessage[], isNeeded: boolean, report: Report): void {
  if (isNeeded && messages.length === 0)
    report("empty-messages", `${what} has no messages: the model would see nothing.`);
  for (const message of messages) {
    const { role, content, tool_calls } = message;
    if (role === "" || content === "" || (content == null && tool_calls === undefined) || content?.length === 0) {
      report("empty-messages", `${what} has an empty message with role "${role}".`);
    }
  }
  if (!survivesJson(messages)) {
    report(
      "json",
      `${what} cannot be written as JSON and read back. Use plain objects, without undefined, functions or NaN.`,
    );
  }
}

/** Rewards and metrics must be numbers that can be averaged; a model must have something to answer. */
export function checkStep({ kind, reward, metrics, observation }: EnvStep, report: Report): void {
  if (!isSoundReward(reward)) report("reward", `step gave the reward ${reward}. A reward is ${SOUND_REWARD}.`);
  for (const [name, value] of Object.entries(metrics)) {
    if (Number.isFinite(value)) continue;
    report(
      "metrics",
      `step gave the metric ${name} = ${String(value)}. Metrics must be finite numbers: 0 or 1 for a claim.`,
    );
  }
  if (kind === "continues" && observation === undefined) {
    report("empty-messages", "A step that continues has no observation: the model would see nothing.");
  }
}

function survivesJson(value: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(JSON.stringify(value)), value);
  } catch {
    return false;
  }
}
