/**
 * An MCP server for tests: `node mcp-server.mjs stdio`, or `node mcp-server.mjs http`, which prints its address.
 *
 * Tools: add two numbers, refuse, wait, exit, and say which process it is.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

function createMcpServer() {
  const server = new McpServer({ name: "test", version: "1" });
  const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
  server.registerTool(
    "add",
    { description: "Adds two numbers.", inputSchema: { a: z.number(), b: z.number() } },
    async ({ a, b }) => text(a + b),
  );
  server.registerTool("refuse", { description: "Fails." }, async () => ({ ...text("not today"), isError: true }));
  server.registerTool("wait", { description: "Takes a minute." }, async () => {
    await setTimeout(60_000, undefined, { ref: false });
    return text("done");
  });
  server.registerTool("exit", { description: "Ends the server." }, async () => process.exit(1));
  server.registerTool("process", { description: "Says which process this is." }, async () => text(process.pid));
  return server;
}

if (process.argv[2] === "stdio") {
  await createMcpServer().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString());
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (transport === undefined && isInitializeRequest(body)) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await createMcpServer().connect(transport);
    }
    if (transport === undefined) response.writeHead(404).end();
    else await transport.handleRequest(request, response, body);
  });
  server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}
