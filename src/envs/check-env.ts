/**
 * Tells an author what their environment breaks.
 *
 * In: an environment. Out: findings in words, none where all is well; each rule is reported once, with the first example.
 * Plays every episode several times: alone, again with the same replies, and side by side with another one.
 */
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../flow/clock.ts";
import type { Prompt } from "../flow/prompt.ts";
import { deriveSeed, Random } from "../random/random.ts";
import { StateKeys } from "./check-env-states.ts";
import { checkMessages, checkStep } from "./check-env-step.ts";
import type { EnvFactory, EnvStep, Observation, Opening, TextEnv } from "./text-env.ts";

/** A rule that was broken, and how. */
export interface EnvFinding {
  readonly rule: string;
  readonly text: string;
}

/** How much is played, and what counts as a fault. */
export interface CheckEnvOptions {
  /** Default 10. */
  readonly numEpisodes?: number;
  /** Default 0. */
  readonly seed?: number;
  /** Prompts to play, for an environment that makes none of its own. */
  readonly prompts?: readonly Prompt[];
  /** Whether an environment without oracleReply is a finding. Default false: not every task has a known best reply. */
  readonly needsOracle?: boolean;
  /** Turns after which an episode counts as endless. Default 1,000. */
  readonly maxTurns?: number;
  /** A clock to find calls with that hold up the event loop. Default: none, and they are not looked for. */
  readonly clock?: Clock;
  /** How long a call may take before it returns a value or a promise. Default 50. */
  readonly maxBlockMs?: number;
}

/** Replies that models write and that no environment may fail on: they cost a penalty, not an episode. */
const ODD_REPLIES = [
  "",
  "   ",
  "hello",
  "<answer>",
  "</answer><answer>",
  "<answer></answer>",
  "{",
  "\u0000\ud800",
  "a".repeat(100_000),
];

/** Plays the environment and reports what it breaks. */
export async function checkEnv(factory: EnvFactory, options: CheckEnvOptions = {}): Promise<EnvFinding[]> {
  const { numEpisodes = 10, seed = 0 } = options;
  const check = new Check(factory, options);
  const prompts =
    options.prompts ?? check.makePrompts(Array.from({ length: numEpisodes }, (_, i) => deriveSeed(seed, i)));
  for (const [i, prompt] of prompts.slice(0, numEpisodes).entries()) {
    const other = prompts[(i + 1) % prompts.length]!;
    await check.guard("throws", "Playing an episode", () =>
      check.episode(prompt, other, deriveSeed(seed, "episode", i)),
    );
  }
  return check.findings();
}

interface Game {
  readonly opening: Opening;
  readonly replies: readonly string[];
  readonly steps: readonly EnvStep[];
}

class Check {
  readonly #factory: EnvFactory;
  readonly #options: CheckEnvOptions;
  readonly #found = new Map<string, string>();

  constructor(factory: EnvFactory, options: CheckEnvOptions) {
    this.#factory = factory;
    this.#options = options;
  }

  findings(): EnvFinding[] {
    return [...this.#found].map(([rule, text]) => ({ rule, text }));
  }

  readonly report = (rule: string, text: string): void => {
    if (!this.#found.has(rule)) this.#found.set(rule, text);
  };

  makePrompts(seeds: readonly number[]): Prompt[] {
    const { makePrompt } = this.#factory;
    if (makePrompt === undefined) {
      this.report("prompts", "The environment has no makePrompt and no prompts were given. Pass `prompts`.");
      return [];
    }
    const prompts = seeds.map(makePrompt);
    if (!isDeepStrictEqual(prompts, seeds.map(makePrompt))) {
      this.report("deterministic", "makePrompt gives different prompts for the same seed. Draw from the seed only.");
    }
    return prompts;
  }

  /** Runs `act`; an error that it throws becomes a finding. */
  async guard(rule: string, what: string, act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.report(rule, `${what} throws: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  async episode(prompt: Prompt, other: Prompt, seed: number): Promise<void> {
    const first = await this.#play(prompt, seed, null);
    const again = await this.#play(prompt, seed, first.replies);
    if (!isDeepStrictEqual(again.steps, first.steps) || !isDeepStrictEqual(again.opening, first.opening)) {
      this.report(
        "deterministic",
        `Prompt "${prompt.id}" with seed ${seed} and the same replies went differently the second time. Draw chance only from prompt.seed and the episode's seed.`,
      );
    } else {
      await this.#playSideBySide(prompt, other, seed, first);
    }
    await this.#oracle(prompt, seed);
    await this.#oddReplies(prompt, seed);
    await this.#endings(prompt, seed);
  }

  /** Plays to the end with replies given, or drawn by the environment. */
  async #play(prompt: Prompt, seed: number, given: readonly string[] | null): Promise<Game> {
    const env = await this.#factory.makeEnv(prompt, seed);
    const random = new Random(seed);
    const replies: string[] = [];
    const steps: EnvStep[] = [];
    const states = new StateKeys(this.report);
    const opening = await this.#call("start", () => env.start(never));
    checkMessages("start's instructions", opening.instructions, false, this.report);
    this.#observe(states, env, opening.observation);
    const copy = JSON.stringify(opening);
    while (steps.at(-1)?.kind !== "terminated" && steps.at(-1)?.kind !== "truncated") {
      if (steps.length >= (this.#options.maxTurns ?? 1000) || (given && steps.length >= given.length)) break;
      const reply = given?.[steps.length] ?? this.#randomReply(env, random);
      const step = await this.#step(env, reply);
      replies.push(reply);
      steps.push(step);
      if (step.observation !== undefined) this.#observe(states, env, step.observation);
      if (env.randomReply && step.metrics.valid_action === 0) {
        this.report("random-reply", `randomReply gave ${JSON.stringify(reply)}, and step could not read it.`);
      }
    }
    if (JSON.stringify(opening) !== copy) {
      this.report("frozen-messages", "What start returned was changed by a later step. Return new objects each time.");
    }
    if (steps.at(-1)?.kind === "continues" && given === null) {
      this.report("ends", `An episode of random replies had not ended after ${steps.length} turns. Give it a limit.`);
    } else if (given === null) {
      await this.#stepAfterEnd(env);
    }
    await env.end?.();
    return { opening, replies, steps };
  }

  #randomReply(env: TextEnv, random: Random): string {
    if (env.randomReply !== undefined) return env.randomReply(random);
    this.report(
      "random-reply",
      "The environment has no randomReply: it cannot be played or benchmarked without a model.",
    );
    return "";
  }

  async #playSideBySide(prompt: Prompt, other: Prompt, seed: number, alone: Game): Promise<void> {
    const env = await this.#factory.makeEnv(prompt, seed);
    const beside = await this.#factory.makeEnv(other, deriveSeed(seed, "beside"));
    const random = new Random(deriveSeed(seed, "beside"));
    const opening = await env.start(never);
    await beside.start(never);
    const steps: EnvStep[] = [];
    let isBesideRunning = true;
    for (const reply of alone.replies) {
      if (isBesideRunning) {
        const step = await beside.step({ text: beside.randomReply?.(random) ?? "", isCut: false }, never);
        isBesideRunning = step.kind === "continues";
      }
      steps.push(await env.step({ text: reply, isCut: false }, never));
      if (steps.at(-1)!.kind !== "continues") break;
    }
    await env.end?.();
    await beside.end?.();
    if (isDeepStrictEqual(steps, alone.steps) && isDeepStrictEqual(opening, alone.opening)) return;
    this.report(
      "independent",
      `Prompt "${prompt.id}" with seed ${seed} went differently while another episode ran. Instances share chance or state: keep both inside the instance.`,
    );
  }

  async #oracle(prompt: Prompt, seed: number): Promise<void> {
    const env = await this.#factory.makeEnv(prompt, seed);
    if (env.oracleReply === undefined) {
      if (this.#options.needsOracle) this.report("oracle-reply", "The environment has no oracleReply.");
      return;
    }
    await env.start(never);
    const reply = env.oracleReply();
    if (reply !== null) {
      const step = await this.#step(env, reply);
      if (reply === "" || step.metrics.valid_action === 0) {
        this.report("oracle-reply", `oracleReply gave ${JSON.stringify(reply)}, and step could not read it.`);
      }
    }
    await env.end?.();
  }

  async #oddReplies(prompt: Prompt, seed: number): Promise<void> {
    for (const text of ODD_REPLIES) {
      const env = await this.#factory.makeEnv(prompt, seed);
      await env.start(never);
      const shown = JSON.stringify(text.slice(0, 40));
      await this.guard(
        "odd-reply",
        `step on the reply ${shown}, which should cost a penalty and not the episode,`,
        async () => checkStep(await env.step({ text, isCut: true }, never), this.report),
      );
      await env.end?.();
    }
  }

  async #stepAfterEnd(env: TextEnv): Promise<void> {
    try {
      await env.step({ text: "", isCut: false }, never);
    } catch {
      return;
    }
    this.report("step-after-end", "step after the episode had ended returned as if nothing were wrong. Throw there.");
  }

  async #endings(prompt: Prompt, seed: number): Promise<void> {
    const env = await this.#factory.makeEnv(prompt, seed);
    await this.guard("end-early", "end of an episode that was never started", async () => env.end?.());
    const twice = await this.#factory.makeEnv(prompt, seed);
    await twice.start(never);
    await twice.end?.();
    await this.guard("end-twice", "end called a second time", async () => twice.end?.());
    const aborted = await this.#factory.makeEnv(prompt, seed);
    try {
      await aborted.start(AbortSignal.abort());
    } catch {
      // Refusing to start is one of the two right answers.
    }
    await this.guard("end-after-failure", "end after an aborted start", async () => aborted.end?.());
  }

  async #step(env: TextEnv, text: string): Promise<EnvStep> {
    const step = await this.#call("step", () => env.step({ text, isCut: false }, never));
    checkStep(step, this.report);
    return step;
  }

  #observe(states: StateKeys, env: TextEnv, observation: Observation): void {
    checkMessages("An observation", observation.messages, true, this.report);
    states.see(observation, env.render?.());
  }

  /** Measures until the call returns: what it awaits after that leaves the event loop free. */
  #call<Result>(name: string, act: () => Result): Result {
    const { clock, maxBlockMs = 50 } = this.#options;
    const start = clock?.() ?? 0;
    const result = act();
    const blockedMs = (clock?.() ?? 0) - start;
    if (blockedMs > maxBlockMs) {
      this.report(
        "blocking",
        `${name} held up the event loop for ${blockedMs.toFixed(0)} ms; ${maxBlockMs} ms are allowed. Run the environment with runInThreads.`,
      );
    }
    return result;
  }
}

const never = new AbortController().signal;
