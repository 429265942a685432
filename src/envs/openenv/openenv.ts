/**
 * Environments that speak OpenEnv: one WebSocket at `/ws` per episode, with `reset` and `step` messages in JSON; or the tools of the server alone
 * (`mcp-episode.ts`).
 *
 * Messages as in `env_server/types.py` and `http_server.py` of meta-pytorch/OpenEnv, tried with openenv 0.10 from PyPI. A server that is full
 * says so, and is asked again. A socket that breaks loses its episode: what the environment drew chance from is not known here, so it cannot be
 * played again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { address, secret } from "../../errors/secret.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { Prompt } from "../../flow/prompt.ts";
import { isServiceLost } from "../../services/service-client.ts";
import { TextSocket } from "../../services/text-socket.ts";
import { episodeEnded } from "../episode-ended.ts";
import { seedPrompt } from "../seed-prompt.ts";
import type { EnvDefinition, EnvStep, Opening, Reply, TextEnv } from "../text-env.ts";
import { brokenCall, parseObject, readCalls } from "../tool-use/tool-use-env.ts";
import { FULL_MS, McpEpisode } from "./mcp-episode.ts";

/** What turns replies into actions, and observations into messages: options of the server's own messages, as they are when left out. */
const OF_WS = { actions: "text", field: "message", shows: null } as const;

const options = z
  .strictObject({
    url: address().describe("Address of the server, without /ws or /mcp."),
    apiKey: secret().nullable().default(null).describe("API key of the server, sent as a bearer token."),
    protocol: z
      .enum(["ws", "mcp"])
      .default("ws")
      .describe(
        "What the server is spoken to by: its own messages, with tasks and rewards (ws), or the tools that it offers to agents (mcp), where prompts come from data and reward functions judge the answer.",
      ),
    actions: z
      .enum(["text", "json", "tools"])
      .default(OF_WS.actions)
      .describe(
        "With ws, how a reply becomes an action: its text in one field (text), the JSON object it holds (json), or the tool that it calls (tools, of MCP environments).",
      ),
    field: z
      .string()
      .min(1)
      .default(OF_WS.field)
      .describe("With ws, the field of an action that takes the text of a reply."),
    shows: z
      .string()
      .min(1)
      .nullable()
      .default(OF_WS.shows)
      .describe("With ws, the field of an observation that the model sees. null: all of it, as JSON."),
    system: z.string().min(1).nullable().default(null).describe("System message of every episode."),
    maxTurns: z.int().positive().default(8).describe("Maximum number of replies before the episode is cut off."),
  })
  .superRefine((given, { addIssue }) => {
    if (given.protocol === "ws") return;
    for (const [key, value] of Object.entries(OF_WS)) {
      if (given[key as keyof typeof OF_WS] === value) continue;
      const message = `It goes with protocol "ws" alone, and protocol is "mcp", which shows the model tools and takes calls of them: leave ${key} out, or choose "ws".`;
      addIssue({ code: "custom", path: [key], message });
    }
  });

type OpenEnvOptions = z.output<typeof options>;

export const openenv: EnvDefinition<typeof options> = {
  type: "openenv",
  options,
  build: (given) => {
    if (given.protocol === "ws") {
      return {
        runsInThreads: true,
        makePrompt: (seed) => seedPrompt("openenv", seed),
        makeEnv: (prompt, seed) => new OpenEnv(prompt, seed, given),
      };
    }
    const { url, apiKey, system, maxTurns } = given;
    const options = { url: url.reveal(), apiKey: apiKey?.reveal(), maxTurns, ...(system !== null && { system }) };
    return { runsInThreads: true, makeEnv: (prompt) => new McpEpisode(prompt, options) };
  },
};

const answerSchema = z.object({
  observation: z.record(z.string(), z.unknown()),
  reward: z.union([z.number(), z.boolean()]).nullish(),
  done: z.boolean().default(false),
});

type Answer = z.output<typeof answerSchema>;

const toolsSchema = z.array(
  z.looseObject({ name: z.string(), description: z.string().nullish(), input_schema: z.unknown().optional() }),
);

class OpenEnv implements TextEnv {
  readonly #prompt: Prompt;
  readonly #seed: number;
  readonly #options: OpenEnvOptions;
  #socket: TextSocket | null = null;
  #numTurns = 0;
  #hasEnded = false;

  constructor(prompt: Prompt, seed: number, given: OpenEnvOptions) {
    this.#prompt = prompt;
    this.#seed = seed;
    this.#options = given;
  }

  async start(signal: AbortSignal): Promise<Opening> {
    const { system, actions } = this.#options;
    const { messages, seed } = this.#prompt;
    const answer = await this.#open({ seed, episode_id: `${this.#prompt.id}-${this.#seed}` }, signal);
    const tools = actions === "tools" ? await this.#listTools(signal) : undefined;
    const instructions = [...(system === null ? [] : [{ role: "system", content: system }]), ...messages];
    return { instructions, ...(tools && { tools }), observation: { messages: [this.#show(answer)] } };
  }

  async step({ text }: Reply, signal: AbortSignal): Promise<EnvStep> {
    if (this.#hasEnded) throw episodeEnded("openenv");
    this.#numTurns++;
    const isLast = this.#numTurns >= this.#options.maxTurns;
    const action = this.#actionOf(text);
    if (action === "over") return this.#end("terminated", 0, { valid_action: 1 });
    if (action === "broken") {
      const metrics = { valid_action: 0 };
      if (isLast) return this.#end("truncated", 0, metrics);
      return { kind: "continues", reward: 0, metrics, observation: { messages: [this.#broken()] } };
    }
    const answer = await this.#ask("step", action, signal);
    const reward = Number(answer.reward ?? 0);
    const metrics = { valid_action: 1 };
    const observation = { messages: [this.#show(answer)] };
    if (answer.done || isLast)
      return { ...this.#end(answer.done ? "terminated" : "truncated", reward, metrics), observation };
    return { kind: "continues", reward, metrics, observation };
  }

  end(): void {
    if (this.#socket === null) return;
    try {
      this.#socket.send(JSON.stringify({ type: "close" }));
    } catch (cause) {
      // A socket that broke has nothing left to end.
      if (!isServiceLost(cause)) throw cause;
    }
    this.#socket.close();
  }

  #end(kind: "terminated" | "truncated", reward: number, metrics: Readonly<Record<string, number>>): EnvStep {
    this.#hasEnded = true;
    return { kind, reward, metrics };
  }

  /** "over": the reply answers and does nothing. */
  #actionOf(text: string): object | "over" | "broken" {
    const { actions, field } = this.#options;
    if (actions === "text") return { [field]: text };
    if (actions === "json") return parseObject(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1)) ?? "broken";
    const { calls, isBroken } = readCalls(text);
    const [call] = calls;
    if (call === undefined) return isBroken ? "broken" : "over";
    const given = parseObject(call.function.arguments);
    return given === undefined ? "broken" : { type: "call_tool", tool_name: call.function.name, arguments: given };
  }

  #broken(): ChatMessage {
    return this.#options.actions === "tools"
      ? brokenCall
      : { role: "user", content: "Error: the reply holds no JSON object." };
  }

  async #listTools(signal: AbortSignal): Promise<readonly ChatTool[]> {
    const { observation } = await this.#ask("step", { type: "list_tools" }, signal);
    const listed = toolsSchema.safeParse(observation.tools);
    if (!listed.success) throw this.#failed("it lists no tools", "VALIDATION_ERROR");
    return listed.data.map(({ name, description, input_schema: parameters }) => ({
      type: "function",
      function: { name, ...(description && { description }), parameters: parameters ?? { type: "object" } },
    }));
  }

  #show({ observation }: Answer): ChatMessage {
    const { shows, actions } = this.#options;
    const shown = shows === null ? observation : observation[shows];
    const content = typeof shown === "string" ? shown : JSON.stringify(shown ?? null);
    return { role: actions === "tools" && this.#numTurns > 0 ? "tool" : "user", content };
  }

  /** A full server takes the socket, says that it is full, and closes it. */
  async #open(data: object, signal: AbortSignal): Promise<Answer> {
    const { url, apiKey } = this.#options;
    for (let attempt = 0; ; attempt++) {
      const place = `${url.reveal().replace(/\/+$/, "")}/ws`;
      this.#socket = await TextSocket.connect(place, signal, apiKey?.reveal());
      try {
        return await this.#ask("reset", data, signal);
      } catch (cause) {
        if (!(cause instanceof RerollError) || cause.details.told !== "CAPACITY_REACHED") throw cause;
        this.#socket.close();
        await sleep(FULL_MS[Math.min(attempt, FULL_MS.length - 1)], undefined, { signal });
      }
    }
  }

  async #ask(type: "reset" | "step", data: object, signal: AbortSignal): Promise<Answer> {
    const socket = this.#socket!;
    try {
      socket.send(JSON.stringify({ type, data }));
    } catch (cause) {
      // What a full server has said before it closed is still to be read.
      if (!isServiceLost(cause)) throw cause;
    }
    const message = JSON.parse(await socket.receive(signal)) as { readonly type?: unknown; readonly data?: unknown };
    if (message.type === "error") {
      const { message: text, code } = message.data as { readonly message?: unknown; readonly code?: unknown };
      throw this.#failed(String(text), String(code));
    }
    const answer = answerSchema.safeParse(message.data);
    if (message.type === "observation" && answer.success) return answer.data;
    throw this.#failed(`it answered with ${JSON.stringify(message).slice(0, 200)}`, "VALIDATION_ERROR");
  }

  #failed(reason: string, told: string): RerollError {
    return new RerollError("ENV_FAILED", `The environment at ${this.#options.url} failed (${told}): ${reason}`, {
      told,
    });
  }
}
