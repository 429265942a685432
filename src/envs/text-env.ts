/**
 * What an environment is, for agents that read and write text.
 *
 * A `TextEnv` serves one episode: start, some steps, end. It draws chance only from the seeds it was made with, holds no state
 * outside itself, and may throw: that ends its own trajectory as failed and nothing else.
 */
import type { z } from "zod";
import type { ChatMessage, ChatTool } from "../flow/chat-message.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { Random } from "../random/random.ts";

export interface TextEnv {
  /** Called once, first. The signal is the same in every call: it aborts when the episode is given up, or over. */
  start(signal: AbortSignal): Opening | Promise<Opening>;
  /** Takes the model's reply and says what came of it. Not called again once the episode has ended. */
  step(reply: Reply, signal: AbortSignal): EnvStep | Promise<EnvStep>;
  /** Frees what the episode held. Called once, last, also when the episode was aborted or failed. */
  end?(): void | Promise<void>;
  /** A legal reply drawn at random, for playing without a model. */
  randomReply?(random: Random): string;
  /** The best reply from here; null where none is known. For tests, warm starts and upper bounds. */
  oracleReply?(): string | null;
  /** The state as text to be drawn by a viewer, such as a grid. */
  render?(): string;
}

/** How an episode begins. */
export interface Opening {
  /** Rules and task, the same for the whole episode. Come before every observation where turns are on their own. */
  readonly instructions: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[];
  readonly observation: Observation;
}

/** What the agent sees next. Complete in itself: together with the instructions it can stand without the turns before. */
export interface Observation {
  readonly messages: readonly ChatMessage[];
  /** The state as a key. Equal keys mean equal states, which lets algorithms compare turns (GiGPO). */
  readonly stateKey?: string;
}

/** A reply of the model. */
export interface Reply {
  /** The text, without the tokens that end a reply. */
  readonly text: string;
  /** Whether it was cut off by a length limit. */
  readonly isCut: boolean;
}

export type EnvStep =
  | (EnvStepFacts & { readonly kind: "continues"; readonly observation: Observation })
  /** The task ended. `observation` is for the record: the model does not answer it. */
  | (EnvStepFacts & { readonly kind: "terminated"; readonly observation?: Observation })
  /** A limit of the environment ended it. */
  | (EnvStepFacts & { readonly kind: "truncated"; readonly observation?: Observation });

interface EnvStepFacts {
  readonly reward: number;
  /** Numbers of this step, such as `valid_action`. Of the last step also those of the episode, such as `success`. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** Makes the environment of one episode. `seed` is for chance during the episode; the start comes from `prompt.seed`. */
export type MakeEnv = (prompt: Prompt, seed: number) => TextEnv | Promise<TextEnv>;

/** A built-in environment as run files name it: `{ type, ...options }`. */
export interface EnvDefinition<Schema extends z.ZodObject = z.ZodObject> {
  readonly type: string;
  readonly options: Schema;
  readonly build: (options: z.output<Schema>) => EnvFactory;
}

export interface EnvFactory {
  readonly makeEnv: MakeEnv;
  /** Prompts of the environment's own, by seed; absent where prompts must come from data. */
  readonly makePrompt?: (seed: number) => Prompt;
  /** The same for an environment on another machine, which has to be asked for them. */
  readonly fetchPrompt?: (seed: number) => Promise<Prompt>;
  /** All words that observations and replies consist of, where they are few: a tokenizer for a small model is made of them. */
  readonly words?: EnvWords;
  /** The same for an environment on another machine; null where it has no such list. */
  readonly fetchWords?: () => Promise<EnvWords | null>;
  /** Set where episodes live in threads of their own already, or on another machine: see `runInThreads`. */
  readonly runsInThreads?: boolean;
  /** Frees what all episodes share, such as worker threads or connections. */
  close?(): Promise<void>;
}

export interface EnvWords {
  readonly words: readonly string[];
  /** Words that end a reply. */
  readonly endWords: readonly string[];
}
