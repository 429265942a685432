/**
 * Tool use as run files name it, and with tools of one's own.
 *
 * Sandboxes and servers are started at the first episode, shared by all, and freed by `close`.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { createJavaScriptSandbox } from "../../sandbox/javascript-sandbox.ts";
import { createPythonSandbox } from "../../sandbox/python-sandbox.ts";
import type { EnvDefinition, EnvFactory } from "../text-env.ts";
import { calculatorTool } from "./calculator-tool.ts";
import { type CodeLanguage, createCodeTool } from "./code-tool.ts";
import { connectMcpTools, mcpServerOptions } from "./mcp-tools.ts";
import type { ToolSource } from "./tool.ts";
import { ToolUseEnv, type ToolUseEnvOptions } from "./tool-use-env.ts";

/** The options of `{ type: "tool-use" }`. */
export const toolUseOptions = z.strictObject({
  system: z.string().min(1).exactOptional().describe("System message for prompts that have none."),
  maxTurns: z.int().positive().default(8).describe("Number of replies after which the episode is cut off."),
  maxCallsPerTurn: z
    .int()
    .positive()
    .default(8)
    .describe("Maximum number of calls in one reply. Further ones get an error."),
  toolTimeoutMs: z.int().positive().default(30_000).describe("Time limit for one call."),
  maxResultChars: z
    .int()
    .positive()
    .default(8000)
    .describe("Maximum number of characters in a result. Longer ones are cut."),
  calculator: z.boolean().default(true).describe("Offer a calculator with exact arithmetic."),
  code: z
    .array(z.enum(["python", "javascript"]))
    .default([])
    .describe("Languages in which the model may run programs, in a sandbox."),
  mcpServers: z.array(mcpServerOptions).default([]).describe("MCP servers whose tools are offered."),
});

/** The options with their defaults filled in. */
type ToolUseOptions = z.output<typeof toolUseOptions>;

/** Tool use as run files name it. */
export const toolUse: EnvDefinition<typeof toolUseOptions> = {
  type: "tool-use",
  options: toolUseOptions,
  build: (options) => createToolUse(() => openToolSources(options), options),
};

/** A factory with any tools. `open` is called once, at the first episode, and again where it failed. */
export function createToolUse(open: () => Promise<readonly ToolSource[]>, options: ToolUseEnvOptions): EnvFactory {
  let opened: Promise<ToolSource> | undefined;
  return {
    makeEnv: async (prompt) => {
      opened ??= open().then(joinSources);
      try {
        return new ToolUseEnv(prompt, (await opened).tools, options);
      } catch (error) {
        opened = undefined;
        throw error;
      }
    },
    close: async () => {
      const closing = opened;
      opened = undefined;
      // What could not be opened was closed then.
      await closing?.then(
        (source) => source.close?.(),
        () => {},
      );
    },
  };
}

async function openToolSources(options: ToolUseOptions): Promise<readonly ToolSource[]> {
  const opening = [
    ...options.code.map(openCodeTool),
    ...options.mcpServers.map((server) => connectMcpTools(server, options.toolTimeoutMs)),
  ];
  const results = await Promise.allSettled(opening);
  const opened = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) {
    await closeAll(opened);
    throw failed.reason;
  }
  return [{ tools: options.calculator ? [calculatorTool] : [] }, ...opened];
}

async function openCodeTool(language: CodeLanguage): Promise<ToolSource> {
  const sandbox = await (language === "python" ? createPythonSandbox() : createJavaScriptSandbox());
  return { tools: [createCodeTool(language, sandbox)], close: () => sandbox.close() };
}

/** All sources as one. The model calls tools by name, so names must differ. */
async function joinSources(sources: readonly ToolSource[]): Promise<ToolSource> {
  const tools = sources.flatMap((source) => source.tools);
  const double = tools.find(({ name }, i) => tools.findIndex((tool) => tool.name === name) !== i);
  if (double === undefined) return { tools, close: () => closeAll(sources) };
  await closeAll(sources);
  throw new RerollError(
    "INVALID_OPTION",
    `Two tools are called "${double.name}". Leave one of the servers or built-in tools out.`,
    { name: double.name },
  );
}

async function closeAll(sources: readonly ToolSource[]): Promise<void> {
  await Promise.all(sources.map((source) => source.close?.()));
}
