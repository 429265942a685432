/** Examples for supervised steps before reinforcement learning: played episodes, or given replies. */

import { ChatFormat, Conversation } from "../chat/conversation.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { buildSource } from "../data/build-source.ts";
import type { DataChoice } from "../data/data-options.ts";
import type { PromptSource } from "../data/prompt-source.ts";
import { oracleAgent, playEpisode, randomAgent } from "../envs/play-episode.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { ChatMessage } from "../flow/chat-message.ts";
import { joinIds } from "../flow/join-arrays.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import { deriveSeed } from "../random/random.ts";
import { defaultData, type RunWorld } from "./build-rollout.ts";
import type { RunConfig } from "./run-config.ts";
import type { Resumable } from "./warm-start-progress.ts";

/** The examples of a warm start. */
interface WarmStartExamples extends Resumable {
  /** The examples of the next supervised step. */
  next(): Promise<readonly TuningExample[]>;
}

/** Examples as the run file asks for them. */
export async function warmStartExamples(
  config: RunConfig,
  options: NonNullable<RunConfig["warmStart"]>,
  { world, tokenizer }: { readonly world: RunWorld; readonly tokenizer: Tokenizer },
): Promise<WarmStartExamples> {
  const seed = deriveSeed(config.seed, "warm-start");
  const format = new ChatFormat(tokenizer, { context: config.rollout.context });
  const choice = options.type === "data" ? options.data : (config.data ?? defaultData(config, "train"));
  const { source } = await buildSource(choice as DataChoice, { seed, envs: world.prompts }, "warmStart.data");
  if (options.type === "data") return givenExamples(source, format, options.rowsPerStep);
  const { agent, turnsPerStep } = options;
  return playedExamples({ world, source, format, agent, turnsPerStep, seed });
}

interface PlayParts {
  readonly world: RunWorld;
  readonly source: PromptSource;
  readonly format: ChatFormat;
  readonly agent: "random" | "oracle";
  readonly turnsPerStep: number;
  readonly seed: number;
}

/** Turns of episodes that an agent without a model has played, each an example of its own. */
function playedExamples(parts: PlayParts): WarmStartExamples {
  const { world, source, format, agent, turnsPerStep, seed } = parts;
  let numPlayed = 0;
  const next = async () => {
    const examples: TuningExample[] = [];
    while (examples.length < turnsPerStep) {
      const [prompt] = await source.next(1);
      if (prompt === undefined)
        throw new RerollError("DATA_ENDED", "The prompts of the warm start have come to an end.");
      const episodeSeed = deriveSeed(seed, "play", numPlayed++);
      const env = await world.makeEnvHere(prompt, episodeSeed);
      const { opening, turns } = await playEpisode(env, agent === "random" ? randomAgent(episodeSeed) : oracleAgent());
      let shown = opening.observation.messages;
      for (const { reply, step } of turns) {
        const promptIds = await new Conversation(format, opening.instructions, opening.tools).ask(shown);
        examples.push(givenExample(promptIds, format, reply));
        if (step.kind === "continues") shown = step.observation.messages;
      }
    }
    return examples;
  };
  return {
    next,
    position: () => ({ numPlayed, prompts: source.position() }),
    restore: async (position) => {
      const saved = position as { readonly numPlayed: number; readonly prompts: JsonValue };
      numPlayed = saved.numPlayed;
      await source.restore(saved.prompts);
    },
  };
}

/** Rows whose truth is the reply to learn, or whose last message is. */
function givenExamples(source: PromptSource, format: ChatFormat, rowsPerStep: number): WarmStartExamples {
  const next = async () => {
    const prompts = await source.next(rowsPerStep);
    return Promise.all(
      prompts.map(async ({ id, messages, tools, truth }) => {
        const { asked, reply } = splitReply(id, messages, truth);
        return givenExample(await new Conversation(format, [], tools).ask(asked), format, reply);
      }),
    );
  };
  return { next, position: () => source.position(), restore: (position) => source.restore(position) };
}

function splitReply(id: string, messages: readonly ChatMessage[], truth: unknown) {
  const last = messages.at(-1);
  if (last?.role === "assistant" && typeof last.content === "string")
    return { asked: messages.slice(0, -1), reply: last.content };
  if (typeof truth === "string") return { asked: messages, reply: truth };
  throw new RerollError(
    "DATA_INVALID",
    `Row ${id} has no reply to learn: its last message must be the assistant's, or its answer a text.`,
    { id },
  );
}

/** A reply ends with the tokenizer's end token where it has a special one; words that end replies are in it already. */
function givenExample(promptIds: Int32Array, { tokenizer }: ChatFormat, reply: string): TuningExample {
  const end = tokenizer.stopIds.find((id) => tokenizer.specialIds.has(id));
  const replyIds = [...tokenizer.encode(reply), ...(end === undefined ? [] : [end])];
  const tokenIds = joinIds([promptIds, replyIds]);
  return { sequences: [{ tokenIds, lossMask: new Uint8Array(tokenIds.length).fill(1, promptIds.length) }] };
}
