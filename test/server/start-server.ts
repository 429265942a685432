/** A server over a scripted engine, for tests that talk to it with real clients. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import type { RerollError } from "../../src/errors/reroll-error.ts";
import type { GenerateRequest } from "../../src/generation/generate.ts";
import { createServer, type GenerationServer } from "../../src/generation/server/create-server.ts";
import type { ServerOptions } from "../../src/generation/server/server-parts.ts";
import type { ListenAddress } from "../../src/services/listen-address.ts";
import {
  createScriptedEngine,
  type ScriptedEngine,
  type ScriptedOptions,
} from "../../src/testing/scripted-generate.ts";

export const MODEL = "scripted";

export interface RunningServer {
  readonly url: string;
  readonly engine: ScriptedEngine;
  readonly server: GenerationServer;
  readonly tokenizer: Tokenizer;
  /** Failures that the server reported as its own. */
  readonly ownFaults: readonly unknown[];
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Closes everything, and checks that nothing is left behind. */
  close(): Promise<void>;
}

export interface StartOptions extends Omit<ScriptedOptions, "source" | "reply"> {
  readonly tokenizer?: Tokenizer;
  /** The text to answer with. The first request has index 0. Undefined: random tokens. */
  readonly reply?: (prompt: string, index: number, request: GenerateRequest) => string | undefined;
  /** How the engine fails at a request, after two tokens. */
  readonly failure?: (index: number) => RerollError | undefined;
  readonly server?: ServerOptions;
  readonly listen?: ListenAddress;
  readonly clock?: () => number;
}

export const fixtureTokenizer = await loadTokenizer("fixtures/tokenizer");

export async function startServer(options: StartOptions = {}): Promise<RunningServer> {
  const { tokenizer = fixtureTokenizer, reply, clock = Date.now } = options;
  const engine = createScriptedEngine({
    ...options,
    source: tokenizer,
    vocabularySize: tokenizer.vocabularySize,
    reply(request, index) {
      const error = options.failure?.(index);
      if (error !== undefined) return { tokenIds: [65, 66], error };
      const text = reply?.(tokenizer.decode(Array.from(request.promptIds)), index, request);
      return text === undefined ? undefined : { tokenIds: tokenizer.encode(text) };
    },
  });
  const ownFaults: unknown[] = [];
  const onError = (cause: unknown) => ownFaults.push(cause);
  const server = createServer(
    { engine, tokenizer, modelName: MODEL, clock, newId: randomUUID, onError },
    options.server,
  );
  const url = await server.listen(options.listen);
  return {
    ...{ url, engine, server, tokenizer, ownFaults },
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    async close() {
      await server.close();
      expect(engine.status()).toMatchObject({ queuedRequests: 0, runningRequests: 0 });
      await engine.close();
    },
  };
}
