/**
 * A teacher on another machine: a server that says how likely the tokens of a prompt are.
 *
 * In: the kind of server and where it is. Out: `score`. The server is tried out first: one that cannot do it, or that spells tokens
 * otherwise, fails at the start. Requests are tried again after faults that may heal. Waits for: a free connection.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { readFacts, type StartOptions, unavailable } from "./connect-remote.ts";
import type { PromptScores } from "./dialect.ts";
import { dialectOf, type RemoteKind } from "./dialects.ts";
import { HttpClient } from "./http-client.ts";
import { isRemoteFault, retryAfterOf } from "./remote-fault.ts";
import { createRetryDelays } from "./retry.ts";

interface TeacherOptions extends StartOptions {
  readonly kind: RemoteKind;
  /** The tokenizer of the model that is taught. */
  readonly tokenizer: Tokenizer;
  /** Tokens that a prompt may have. */
  readonly maxTokens: number;
  /** How the teacher is called in messages: the key that the user typed. */
  readonly name: string;
}

export interface RemoteTeacher {
  /** Log-probs of the tokens under the teacher at temperature 1; NaN for the first. Rejects where the server cannot be asked. */
  score(promptIds: Int32Array, signal?: AbortSignal): Promise<Float32Array>;
  close(): void;
}

/** Connects to a server and tries it out. Throws when it cannot be the teacher of a model with this tokenizer. */
export async function connectTeacher(options: TeacherOptions): Promise<RemoteTeacher> {
  const { kind, url, apiKey, name, maxTokens } = options;
  const dialect = dialectOf(kind);
  const { scorePrompt } = dialect;
  if (scorePrompt === undefined)
    throw new RerollError(
      "REMOTE_INCAPABLE",
      `${name}.kind is ${kind}, which says nothing about the tokens of a prompt.`,
    );
  const http = new HttpClient({ url, timeoutMs: 300_000, maxConnections: 64, ...(apiKey !== undefined && { apiKey }) });
  try {
    const facts = await readFacts(dialect, options);
    const delayOf = createRetryDelays(options);
    const ask = async (promptIds: Int32Array, signal: AbortSignal | undefined): Promise<PromptScores> => {
      for (let attempt = 1; ; attempt++) {
        try {
          return await scorePrompt({ http, facts, promptIds, signal });
        } catch (cause) {
          if (!isRemoteFault(cause)) throw cause;
          const delayMs = delayOf(attempt, retryAfterOf(cause));
          if (delayMs === undefined) throw unavailable(dialect, attempt, cause);
          await sleep(delayMs, undefined, signal && { signal });
        }
      }
    };
    if (facts.contextLength <= maxTokens) throw tooShort(name, http.url, facts.contextLength, maxTokens);
    await expectVocabulary(options, http.url, (promptIds) => ask(promptIds, undefined));
    return { score: async (promptIds, signal) => (await ask(promptIds, signal)).logprobs, close: () => http.close() };
  } catch (cause) {
    http.close();
    throw cause;
  }
}

/** Tokens that are tried: enough that another vocabulary has others among them. */
const MAX_PROBES = 256;

/** Compares how both sides spell tokens from all over the vocabulary. Only plain words are compared: servers differ in how they show the rest. */
async function expectVocabulary(
  { tokenizer, name, maxTokens }: TeacherOptions,
  url: string,
  ask: (promptIds: Int32Array) => Promise<PromptScores>,
): Promise<void> {
  const words = Array.from({ length: tokenizer.vocabularySize }, (_, id) => id).filter((id) => isWord(tokenizer, id));
  const numProbes = Math.min(MAX_PROBES, words.length, maxTokens - 1);
  const probes = Int32Array.from({ length: numProbes }, (_, i) => words[Math.floor((i * words.length) / numProbes)]!);
  if (numProbes < 2) return;
  const { texts } = await ask(probes);
  const wrong = probes.findIndex((id, i) => {
    const text = texts[i];
    return i > 0 && typeof text === "string" && text.trim() !== tokenizer.decode([id]).trim();
  });
  if (wrong === -1) return;
  const [id, ours, theirs] = [probes[wrong]!, tokenizer.decode([probes[wrong]!]), texts[wrong]];
  throw new RerollError(
    "VOCABULARY_MISMATCH",
    `${name} has another vocabulary than the model: at ${url} token ${id} is ${JSON.stringify(theirs)}, and in the model it is ${JSON.stringify(ours)}. ` +
      "A teacher measures the very tokens of its student: serve a model with the same tokenizer.",
    { name, id },
  );
}

function isWord(tokenizer: Tokenizer, id: number): boolean {
  return tokenizer.tokenOf(id) !== undefined && /^[A-Za-z0-9]+$/.test(tokenizer.decode([id]).trim());
}

function tooShort(name: string, url: string, contextLength: number, maxTokens: number): RerollError {
  return new RerollError(
    "REMOTE_INCAPABLE",
    `${name} at ${url} holds ${contextLength} tokens, and a trajectory may have ${maxTokens}, with its context. Serve it with a longer context, or lower rollout.contextLength.`,
    { name, contextLength, maxTokens },
  );
}
