/**
 * A thread of environments: makes, steps and ends episodes as its owner asks.
 *
 * In: `EnvSource` as worker data, then `ToEnvThread`. Out: `FromEnvThread`. An environment that throws fails its own request.
 */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { invariant, RerollError } from "../errors/reroll-error.ts";
import type { EnvAnswer, EnvErrorMessage, EnvSource, FromEnvThread, ToEnvThread } from "./env-messages.ts";
import type { EnvFactory, TextEnv } from "./text-env.ts";

class EnvWorker {
  readonly #port: MessagePort;
  readonly #factory: EnvFactory;
  readonly #episodes = new Map<number, TextEnv>();
  readonly #aborts = new Map<number, AbortController>();

  constructor(port: MessagePort, factory: EnvFactory) {
    this.#port = port;
    this.#factory = factory;
    port.on("message", (message: ToEnvThread) => void this.#receive(message));
    post(port, { kind: "ready" });
  }

  async #receive(message: ToEnvThread): Promise<void> {
    const { id } = message;
    if (message.kind === "abort") {
      this.#aborts.get(id)?.abort();
      return;
    }
    const controller = new AbortController();
    this.#aborts.set(id, controller);
    try {
      const answer = await this.#answer(message, controller.signal);
      // Inside, since an answer that cannot be cloned is the environment's fault too.
      post(this.#port, { kind: "done", id, answer });
    } catch (error) {
      post(this.#port, { kind: "failed", id, error: packError(error) });
    }
    this.#aborts.delete(id);
  }

  async #answer(message: Exclude<ToEnvThread, { kind: "abort" }>, signal: AbortSignal): Promise<EnvAnswer> {
    switch (message.kind) {
      case "make":
        this.#episodes.set(message.episode, await this.#factory.makeEnv(message.prompt, message.seed));
        return {};
      case "start": {
        const env = this.#find(message.episode);
        return { opening: await env.start(signal), ...picture(env) };
      }
      case "step": {
        const env = this.#find(message.episode);
        return { step: await env.step(message.reply, signal), ...picture(env) };
      }
      case "end": {
        const env = this.#find(message.episode);
        this.#episodes.delete(message.episode);
        await env.end?.();
        return {};
      }
      case "close":
        await this.#factory.close?.();
        return {};
    }
  }

  #find(episode: number): TextEnv {
    const env = this.#episodes.get(episode);
    invariant(env !== undefined, `episode ${episode} is not in this thread`);
    return env;
  }
}

function picture(env: TextEnv): Pick<EnvAnswer, "picture"> {
  return env.render === undefined ? {} : { picture: env.render() };
}

function packError(error: unknown): EnvErrorMessage {
  if (error instanceof RerollError) return { code: error.code, message: error.message };
  return { code: null, message: error instanceof Error ? error.message : String(error) };
}

function post(port: MessagePort, message: FromEnvThread): void {
  port.postMessage(message);
}

async function loadFactory({ module, exportName, options }: EnvSource): Promise<EnvFactory> {
  const exports: Record<string, unknown> = await import(module);
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

const port = parentPort;
invariant(port !== null, "env-worker runs in a thread");
try {
  new EnvWorker(port, await loadFactory(workerData as EnvSource));
} catch (error) {
  post(port, { kind: "broken", error: packError(error) });
}
