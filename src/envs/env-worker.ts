/** A thread of environments: makes, steps and ends episodes as its owner asks. An environment that throws fails its own call. */
import { invariant, RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import { guardThread } from "../workers/guard-thread.ts";
import { hostInThread } from "../workers/host-in-thread.ts";
import type { EnvHost, EnvSource, Shown } from "./env-host.ts";
import type { EnvFactory, EnvStep, Opening, Reply, TextEnv } from "./text-env.ts";

const guard = guardThread();

class ThreadEnvs implements EnvHost {
  readonly #factory: EnvFactory;
  readonly #episodes = new Map<number, TextEnv>();

  constructor(factory: EnvFactory) {
    this.#factory = factory;
  }

  async makePrompt(number: number, seed: number): Promise<Prompt> {
    const { makePrompt } = this.#factory;
    invariant(makePrompt !== undefined, "this environment makes no prompts");
    return guard.call(number, () => makePrompt(seed));
  }

  async make(episode: number, prompt: Prompt, seed: number): Promise<void> {
    this.#episodes.set(episode, await guard.call(episode, () => this.#factory.makeEnv(prompt, seed)));
  }

  async start(episode: number, signal: AbortSignal): Promise<Shown<Opening>> {
    const env = this.#find(episode);
    return shown(env, await guard.call(episode, () => env.start(signal)));
  }

  async step(episode: number, reply: Reply, signal: AbortSignal): Promise<Shown<EnvStep>> {
    const env = this.#find(episode);
    return shown(env, await guard.call(episode, () => env.step(reply, signal)));
  }

  async end(episode: number): Promise<void> {
    const env = this.#find(episode);
    this.#episodes.delete(episode);
    await guard.call(episode, () => env.end?.());
  }

  async ping(): Promise<void> {}

  listen(report: (message: string) => void): Promise<never> {
    return guard.listen(report);
  }

  async close(): Promise<void> {
    await this.#factory.close?.();
  }

  #find(episode: number): TextEnv {
    const env = this.#episodes.get(episode);
    invariant(env !== undefined, `episode ${episode} is not in this thread`);
    return env;
  }
}

function shown<Answer>(env: TextEnv, answer: Answer): Shown<Answer> {
  return { answer, picture: env.render?.() };
}

async function loadFactory({ module, exportName, options }: EnvSource): Promise<EnvFactory> {
  const exports = await guard.load(module);
  const build = exports[exportName];
  if (typeof build !== "function") {
    throw new RerollError(
      "INVALID_ENV_MODULE",
      `exportName "${exportName}" is not a function of ${module}. It exports: ${Object.keys(exports).join(", ")}.`,
    );
  }
  const factory: EnvFactory = await build(options);
  return factory;
}

await hostInThread(async (source: EnvSource) => new ThreadEnvs(await loadFactory(source)), { wrap: guard.wrap });
