/** Environments that live in a thread, as their owner calls them. */
import type { Prompt } from "../flow/prompt.ts";
import type { EnvStep, Opening, Reply } from "./text-env.ts";

/** The code that a thread builds its environments with. */
export interface EnvSource {
  /** The address or the path of a module. */
  readonly module: string;
  /** Name of a function in that module that takes the options and returns an `EnvFactory`. */
  readonly exportName: string;
  readonly options: unknown;
}

/** An answer of an environment, and a picture of it now where it can be drawn. */
export interface Shown<Answer> {
  readonly answer: Answer;
  readonly picture: string | undefined;
}

/** The episodes of one thread, each by a number above 0 that its owner gives it. A prompt to make has such a number too. */
export interface EnvHost {
  makePrompt(number: number, seed: number): Promise<Prompt>;
  make(episode: number, prompt: Prompt, seed: number): Promise<void>;
  start(episode: number, signal: AbortSignal): Promise<Shown<Opening>>;
  step(episode: number, reply: Reply, signal: AbortSignal): Promise<Shown<EnvStep>>;
  end(episode: number): Promise<void>;
  ping(): Promise<void>;
  listen(report: (message: string) => void): Promise<never>;
  /** Frees what all episodes share. */
  close(): Promise<void>;
}
