import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import type { Prompt } from "../../flow/prompt.ts";
import type { EnvFactory, EnvStep, TextEnv } from "../text-env.ts";
import { toolUse, toolUseOptions } from "./tool-use.ts";

const serverFile = fileURLToPath(new URL("../../../test/envs/mcp-server.mjs", import.meta.url));
const overStdio = { name: "test", command: process.execPath, args: [serverFile, "stdio"] };
const prompt: Prompt = {
  id: "sums/0",
  domain: "tools",
  seed: 0,
  messages: [{ role: "user", content: "What is 2 + 3?" }],
  truth: "5",
  extra: {},
};
const signal = new AbortController().signal;

const factories: EnvFactory[] = [];
const servers: ChildProcess[] = [];
afterEach(async () => {
  await Promise.all(factories.splice(0).map((factory) => factory.close?.()));
  for (const server of servers.splice(0)) server.kill();
});

function build(server: Readonly<Record<string, unknown>>, options = {}): EnvFactory {
  const factory = toolUse.build(toolUseOptions.parse({ calculator: false, mcpServers: [server], ...options }));
  factories.push(factory);
  return factory;
}

async function startHttpServer() {
  const child = spawn(process.execPath, [serverFile, "http"], { stdio: ["ignore", "pipe", "inherit"] });
  servers.push(child);
  const [line] = await once(child.stdout!, "data");
  return { child, server: { name: "test", url: String(line).trim() } };
}

async function call(env: TextEnv, name: string, given: unknown = {}): Promise<EnvStep> {
  const text = `<tool_call>${JSON.stringify({ name, arguments: given })}</tool_call>`;
  return env.step({ text, isCut: false }, signal);
}

async function answerOf(env: TextEnv, name: string, given: unknown = {}): Promise<string> {
  const step = await call(env, name, given);
  return String(step.observation!.messages[0]!.content);
}

/** A process that the server runs in, seen from outside. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe.each(["stdio", "streamable HTTP"])("over %s", (transport) => {
  const serverOf = async () => (transport === "stdio" ? overStdio : (await startHttpServer()).server);

  test("the server's tools are offered and called, by several episodes at once", async () => {
    const factory = build(await serverOf());
    const envs = await Promise.all([0, 1, 2].map((seed) => factory.makeEnv(prompt, seed)));
    const [opening] = await Promise.all(envs.map((env) => env.start(signal)));
    expect(opening!.tools![0]).toMatchObject({
      type: "function",
      function: { name: "add", description: "Adds two numbers.", parameters: { type: "object", required: ["a", "b"] } },
    });
    expect(await Promise.all(envs.map((env, i) => answerOf(env, "add", { a: i, b: 3 })))).toEqual(["3", "4", "5"]);
    const processes = await Promise.all(envs.map((env) => answerOf(env, "process")));
    expect(new Set(processes).size).toBe(1);
  });

  test("what a tool refuses, wrong arguments and slow tools are told to the model", async () => {
    const env = await build(await serverOf(), { toolTimeoutMs: 2000 }).makeEnv(prompt, 0);
    await env.start(signal);
    expect(await answerOf(env, "refuse")).toBe("Error: not today");
    expect(await answerOf(env, "add", { a: "x" })).toMatch(/^Error: .*Invalid arguments for tool add/s);
    expect(await answerOf(env, "wait")).toBe("Error: wait took longer than 2000 ms.");
    expect(await answerOf(env, "add", { a: 1, b: 1 })).toBe("2");
  });

  test("a server that dies fails the episode and says so", async () => {
    const env = await build(await serverOf()).makeEnv(prompt, 0);
    await env.start(signal);
    await expect(call(env, "exit")).rejects.toMatchObject({
      code: "MCP_SERVER_GONE",
      message: expect.stringMatching(/^MCP server "test" did not answer the call of "exit": /),
    });
  });
});

test("a server that died is started again for the next episode", async () => {
  const factory = build(overStdio);
  const env = await factory.makeEnv(prompt, 0);
  await env.start(signal);
  await expect(call(env, "exit")).rejects.toThrow(/did not answer/);
  const next = await factory.makeEnv(prompt, 1);
  await next.start(signal);
  expect(await answerOf(next, "add", { a: 1, b: 2 })).toBe("3");
});

test("closing the factory ends the server's process", async () => {
  const factory = build(overStdio);
  const env = await factory.makeEnv(prompt, 0);
  await env.start(signal);
  const pid = Number(await answerOf(env, "process"));
  expect(isRunning(pid)).toBe(true);
  await factory.close!();
  expect(isRunning(pid)).toBe(false);
});

test("a server that cannot be started fails with its command, and is tried again", async () => {
  const factory = build({ name: "ghost", command: "/nowhere/mcp", args: ["--fast"] });
  for (let attempt = 0; attempt < 2; attempt++) {
    await expect(async () => factory.makeEnv(prompt, 0)).rejects.toThrow(
      /^MCP server "ghost" could not be started or did not list its tools: .*It was reached by: \/nowhere\/mcp\./,
    );
  }
});

test("a server whose address is wrong is refused with its address", async () => {
  const factory = build({ name: "far", url: "http://127.0.0.1:9/mcp" });
  await expect(async () => factory.makeEnv(prompt, 0)).rejects.toThrow(/It was reached by: http:\/\/127.0.0.1:9\/mcp/);
});
