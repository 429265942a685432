/**
 * An episode with the tools of an OpenEnv server: JSON-RPC 2.0 at `/mcp`, in a session of its own.
 *
 * As in `http_server.py` of meta-pytorch/OpenEnv: `openenv/session/create`, `tools/list`, `tools/call`, `openenv/session/close`. This side of a server knows
 * no rewards: the task is in the prompt, and reward functions say what the answer is worth. A call may have been made though its answer was lost, so
 * none is asked twice: the episode fails.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { splitAddress } from "../../errors/secret.ts";
import { withTimeLimit } from "../../errors/time-limit.ts";
import type { Prompt } from "../../flow/prompt.ts";
import type { EnvStep, Opening, Reply, TextEnv } from "../text-env.ts";
import type { Tool, ToolResult } from "../tool-use/tool.ts";
import { ToolUseEnv } from "../tool-use/tool-use-env.ts";

interface McpEpisodeOptions {
  /** Without /mcp. */
  readonly url: string;
  readonly apiKey?: string | undefined;
  readonly system?: string;
  readonly maxTurns: number;
}

/** Waits for a place at a server that is full, the last of them from then on. */
export const FULL_MS = [100, 300, 1000, 3000];

/** As the tool-use environment has them by default. */
const LIMITS = { maxCallsPerTurn: 8, toolTimeoutMs: 30_000, maxResultChars: 8000 };

/** How long creating and closing a session, and listing tools, may take. */
const LIFECYCLE_MS = 60_000;

export class McpEpisode implements TextEnv {
  readonly #prompt: Prompt;
  readonly #options: McpEpisodeOptions;
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  #session: string | null = null;
  #conversation: ToolUseEnv | null = null;
  #numRequests = 0;

  constructor(prompt: Prompt, options: McpEpisodeOptions) {
    this.#prompt = prompt;
    this.#options = options;
    const { url, headers } = splitAddress(options.url);
    this.#url = `${url.replace(/\/+$/, "")}/mcp`;
    const { apiKey } = options;
    this.#headers = {
      "content-type": "application/json",
      ...headers,
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    };
  }

  async start(signal: AbortSignal): Promise<Opening> {
    this.#session = await this.#createSession(signal);
    const tools = await withTimeLimit(LIFECYCLE_MS, signal, (limited) => this.#listTools(limited));
    const { system, maxTurns } = this.#options;
    this.#conversation = new ToolUseEnv(this.#prompt, tools, { ...LIMITS, maxTurns, ...(system && { system }) });
    return this.#conversation.start();
  }

  step(reply: Reply, signal: AbortSignal): Promise<EnvStep> {
    invariant(this.#conversation !== null, "an episode is stepped that was not started");
    return this.#conversation.step(reply, signal);
  }

  async end(): Promise<void> {
    if (this.#session === null) return;
    const params = { session_id: this.#session };
    this.#session = null;
    // A server that is gone has no session left.
    await withTimeLimit(LIFECYCLE_MS, undefined, (limited) =>
      this.#ask("openenv/session/close", params, limited),
    ).catch(() => {});
  }

  /** A full server refuses; it is asked again until the episode is given up. */
  async #createSession(signal: AbortSignal): Promise<string> {
    for (let attempt = 0; ; attempt++) {
      const answer = await withTimeLimit(LIFECYCLE_MS, signal, (limited) =>
        this.#ask("openenv/session/create", {}, limited),
      );
      if (!("error" in answer)) return sessionSchema.parse(answer.result).session_id;
      if (answer.error.data?.max_sessions === undefined) throw this.#failed(answer.error.message);
      await sleep(FULL_MS[Math.min(attempt, FULL_MS.length - 1)], undefined, { signal });
    }
  }

  async #listTools(signal: AbortSignal): Promise<readonly Tool[]> {
    const answer = await this.#ask("tools/list", { session_id: this.#session }, signal);
    if ("error" in answer) throw this.#failed(`it lists no tools: ${answer.error.message}`);
    const listed = toolsSchema.safeParse(answer.result);
    if (!listed.success) throw this.#failed(`it lists its tools as ${JSON.stringify(answer.result).slice(0, 200)}`);
    return listed.data.tools.map(({ name, description, inputSchema, input_schema: older }) => ({
      name,
      description: description ?? "",
      parameters: inputSchema ?? older ?? { type: "object" },
      call: (given, limited) => this.#call(name, given, limited),
    }));
  }

  async #call(name: string, given: Tool["parameters"], signal: AbortSignal): Promise<ToolResult> {
    const answer = await this.#ask("tools/call", { session_id: this.#session, name, arguments: given }, signal);
    if (!("error" in answer)) return readResult(answer.result);
    const { message } = answer.error;
    // What a tool throws is told as an error too, and the model reads it.
    if (message.startsWith("Unknown session_id")) throw this.#failed("it has started again and lost the episode");
    return { kind: "error", text: message };
  }

  async #ask(method: string, params: object, signal: AbortSignal): Promise<Answer> {
    const id = ++this.#numRequests;
    const body = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    let text: string;
    try {
      const response = await fetch(this.#url, { method: "POST", headers: this.#headers, body, signal });
      text = await response.text();
      if (!response.ok) throw this.#failed(`${method} was answered with ${response.status}: ${text.slice(0, 200)}`);
    } catch (cause) {
      if (cause instanceof RerollError) throw cause;
      if (signal.aborted && signal.reason?.name !== "TimeoutError") throw signal.reason;
      throw this.#lost(method, cause);
    }
    const answer = answerSchema.safeParse(tryJson(text));
    // A server that could not read a request answers with an error that has no id.
    const isOurs = answer.success && (answer.data.id === id || ("error" in answer.data && answer.data.id == null));
    if (isOurs) return answer.data;
    throw this.#failed(`it answered ${method} with ${text.slice(0, 200)}`);
  }

  #failed(reason: string): RerollError {
    return new RerollError("ENV_FAILED", `The environment at ${this.#url} failed: ${reason}`);
  }

  #lost(method: string, cause: unknown): RerollError {
    const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    const reason = inner instanceof Error ? inner.message : String(inner);
    return new RerollError("SERVICE_LOST", `${this.#url} did not answer ${method}: ${reason}.`, {}, { cause });
  }
}

const requestId = z.union([z.number(), z.string()]).nullish();

const answerSchema = z.union([
  z.object({
    id: requestId,
    error: z.object({ message: z.string(), data: z.looseObject({ max_sessions: z.number().optional() }).nullish() }),
  }),
  z.object({ id: requestId, result: z.unknown() }),
]);

type Answer = z.output<typeof answerSchema>;

const sessionSchema = z.object({ session_id: z.string().min(1) });

const parameters = z.record(z.string(), z.unknown());
const toolsSchema = z.object({
  tools: z.array(
    z.looseObject({
      name: z.string(),
      description: z.string().nullish(),
      inputSchema: parameters.nullish(),
      input_schema: parameters.nullish(),
    }),
  ),
});

/** What a tool of MCP gives, in parts; or the value of a function, as servers without a client of MCP give it. */
const partsSchema = z.object({
  content: z.array(z.looseObject({ type: z.string(), text: z.string().optional() })),
  isError: z.boolean().nullish(),
  is_error: z.boolean().nullish(),
});

function readResult(result: unknown): ToolResult {
  const parts = partsSchema.safeParse(result);
  if (!parts.success) return { kind: "ok", text: typeof result === "string" ? result : JSON.stringify(result ?? null) };
  const { content, isError, is_error: older } = parts.data;
  const text = content.map((part) => part.text ?? `[${part.type}]`).join("\n");
  return { kind: (isError ?? older) === true ? "error" : "ok", text };
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A page of a proxy: what it says is shown.
    return undefined;
  }
}
