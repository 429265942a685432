/**
 * The tools of a server that speaks the Model Context Protocol, over standard input and output or over streamable HTTP.
 *
 * The server is started, and its tools are listed, once. What a tool cannot do comes back as an error result. A server that is
 * gone fails the call with `MCP_SERVER_GONE`; the next call starts or reaches it anew.
 */
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { expectPackage } from "../../errors/optional-package.ts";
import { redactText } from "../../errors/redact-text.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { address, secretRecord, splitAddress } from "../../errors/secret.ts";
import type { Tool, ToolArguments, ToolResult, ToolSource } from "./tool.ts";

const serverName = z.string().min(1).describe("How errors name the server.");

/** How to reach a server. */
export const mcpServerOptions = z.union([
  z.strictObject({
    name: serverName,
    command: z.string().min(1).describe("The program that serves on its standard input and output."),
    args: z.array(z.string()).default([]),
    env: secretRecord().exactOptional().describe("Variables beside the usual safe ones."),
    cwd: z.string().exactOptional(),
  }),
  z.strictObject({
    name: serverName,
    url: address().describe("Where a server with streamable HTTP listens."),
    headers: secretRecord().exactOptional(),
  }),
]);

/** One server: a command, or an address. */
type McpServerOptions = z.output<typeof mcpServerOptions>;

/** Starts or reaches the server and lists its tools. @param startTimeoutMs for connecting, and for each page of the list */
export async function connectMcpTools(server: McpServerOptions, startTimeoutMs: number): Promise<ToolSource> {
  expectPackage("@modelcontextprotocol/sdk", `MCP server "${server.name}"`);
  const connection = new McpConnection(server, startTimeoutMs);
  try {
    const tools = await connection.listTools();
    return { tools, close: () => connection.close() };
  } catch (error) {
    await connection.close();
    throw gone(server, "could not be started or did not list its tools", error);
  }
}

class McpConnection {
  readonly #server: McpServerOptions;
  readonly #startTimeoutMs: number;
  #client: Promise<Client> | undefined;

  constructor(server: McpServerOptions, startTimeoutMs: number) {
    this.#server = server;
    this.#startTimeoutMs = startTimeoutMs;
  }

  async listTools(): Promise<Tool[]> {
    const client = await this.#connected();
    const tools: Tool[] = [];
    let cursor: string | undefined;
    do {
      const page = await client.listTools(cursor === undefined ? {} : { cursor }, { timeout: this.#startTimeoutMs });
      for (const { name, description = "", inputSchema } of page.tools) {
        tools.push({
          name,
          description,
          parameters: inputSchema,
          call: (given, signal) => this.#call(name, given, signal),
        });
      }
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return tools;
  }

  async close(): Promise<void> {
    if (this.#client !== undefined) await this.#drop(this.#client);
  }

  async #call(name: string, given: ToolArguments, signal: AbortSignal): Promise<ToolResult> {
    const { CallToolResultSchema, ErrorCode, McpError } = await import("@modelcontextprotocol/sdk/types.js");
    const connected = this.#connected();
    try {
      const client = await connected;
      // The signal carries the time limit; the protocol's own would come before it.
      const result = await client.callTool({ name, arguments: { ...given } }, CallToolResultSchema, {
        signal,
        timeout: MAX_TIMEOUT_MS,
      });
      return readResult(CallToolResultSchema.parse(result));
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof McpError && error.code !== ErrorCode.ConnectionClosed) {
        return { kind: "error", text: error.message };
      }
      await this.#drop(connected);
      throw gone(this.#server, `did not answer the call of "${name}"`, error);
    }
  }

  #connected(): Promise<Client> {
    if (this.#client !== undefined) return this.#client;
    const opening: Promise<Client> = connect(this.#server, this.#startTimeoutMs, () => this.#forget(opening));
    this.#client = opening;
    return opening;
  }

  /** Another call may have connected anew by now: that one stays. */
  #forget(client: Promise<Client>): void {
    if (this.#client === client) this.#client = undefined;
  }

  async #drop(client: Promise<Client>): Promise<void> {
    this.#forget(client);
    // One that never came up has nothing to close.
    await client.then(
      (open) => open.close(),
      () => {},
    );
  }
}

async function connect(server: McpServerOptions, timeoutMs: number, onClose: () => void): Promise<Client> {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const client = new Client({ name: "reroll", version: "0" });
  client.onclose = onClose;
  try {
    await client.connect(await createTransport(server), { timeout: timeoutMs });
    return client;
  } catch (error) {
    await client.close();
    throw error;
  }
}

const MAX_TIMEOUT_MS = 2 ** 31 - 1;

async function createTransport(server: McpServerOptions): Promise<Transport> {
  if ("command" in server) {
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { command, args, env, cwd } = server;
    return new StdioClientTransport({
      command,
      args,
      stderr: "ignore",
      ...(env === undefined ? {} : { env: { ...env.reveal() } }),
      ...(cwd === undefined ? {} : { cwd }),
    });
  }
  const { url, headers } = splitAddress(server.url.reveal());
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers, ...server.headers?.reveal() } },
  });
  // The class declares `sessionId` as `string | undefined` where its own interface has it optional.
  return transport as Transport;
}

function readResult({ content, structuredContent, isError }: CallToolResult): ToolResult {
  const parts = content.map((part) => {
    if (part.type === "text") return part.text;
    if (part.type === "resource" && "text" in part.resource) return part.resource.text;
    return `[${part.type}]`;
  });
  const text =
    parts.length === 0 && structuredContent !== undefined ? JSON.stringify(structuredContent) : parts.join("\n");
  return { kind: isError === true ? "error" : "ok", text };
}

function gone(server: McpServerOptions, what: string, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  // Not its arguments, which may hold a key.
  const where = "command" in server ? server.command : server.url;
  return new RerollError(
    "MCP_SERVER_GONE",
    `MCP server "${server.name}" ${what}: ${redactText(reason)}. It was reached by: ${where}. See whether it runs on its own.`,
    { server: server.name },
    { cause },
  );
}
