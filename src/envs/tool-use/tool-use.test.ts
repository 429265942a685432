import { afterEach, describe, expect, test } from "vitest";
import type { Prompt } from "../../flow/prompt.ts";
import { checkSandbox } from "../../sandbox/python-sandbox.ts";
import { checkEnv } from "../check-env.ts";
import type { EnvFactory, EnvStep, TextEnv } from "../text-env.ts";
import type { Tool } from "./tool.ts";
import { createToolUse, toolUse, toolUseOptions } from "./tool-use.ts";

const prompt: Prompt = {
  id: "sums/0",
  domain: "tools",
  seed: 0,
  messages: [{ role: "user", content: "What is 17 * 23?" }],
  truth: "391",
  extra: {},
};
const signal = new AbortController().signal;
const pythonSandbox = await checkSandbox();

const open: EnvFactory[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((factory) => factory.close?.()));
});

function build(given: Parameters<typeof toolUseOptions.parse>[0] = {}): EnvFactory {
  const factory = toolUse.build(toolUseOptions.parse(given));
  open.push(factory);
  return factory;
}

async function started(factory: EnvFactory): Promise<TextEnv> {
  const env = await factory.makeEnv(prompt, 0);
  await env.start(signal);
  return env;
}

function callText(name: string, given: unknown): string {
  return `<tool_call>\n${JSON.stringify({ name, arguments: given })}\n</tool_call>`;
}

async function reply(env: TextEnv, ...texts: string[]): Promise<EnvStep> {
  return env.step({ text: texts.join("\n"), isCut: false }, signal);
}

function contents(step: EnvStep): unknown[] {
  return step.observation!.messages.map(({ content }) => content);
}

test("the model sees the question and the tools, calls one, reads the result, and answers", async () => {
  const env = await build({ system: "Use tools." }).makeEnv(prompt, 0);
  const opening = await env.start(signal);
  expect(opening.instructions).toEqual([{ role: "system", content: "Use tools." }]);
  expect(opening.observation.messages).toEqual(prompt.messages);
  expect(opening.tools).toMatchObject([{ type: "function", function: { name: "calculator" } }]);
  const step = await reply(env, "I compute.", callText("calculator", { expression: "17 * 23" }));
  expect(step).toEqual({
    kind: "continues",
    reward: 0,
    metrics: { valid_action: 1, tool_calls: 1, tool_errors: 0 },
    observation: { messages: [{ role: "tool", name: "calculator", tool_call_id: "call_0", content: "391" }] },
  });
  expect(await reply(env, "It is 391.")).toEqual({
    kind: "terminated",
    reward: 0,
    metrics: { valid_action: 1, total_tool_calls: 1 },
  });
  await expect(reply(env, "Again.")).rejects.toThrow(/had ended/);
});

test("several calls in one reply are answered in order, up to the limit", async () => {
  const env = await started(build({ maxCallsPerTurn: 2 }));
  const sums = ["1 + 1", "1 / 3", "2 + 2"].map((expression) => callText("calculator", { expression }));
  expect(contents(await reply(env, ...sums))).toEqual([
    "2",
    "1/3 (about 0.333333333333)",
    "Error: Too many calls in one reply: this one was not made.",
  ]);
});

test("what goes wrong in a call is told to the model, and the episode goes on", async () => {
  const env = await started(build());
  const step = await reply(
    env,
    callText("telescope", {}),
    callText("calculator", { sum: "1" }),
    callText("calculator", { expression: "1 / 0" }),
    callText("calculator", "1 + 1"),
  );
  expect(contents(step)).toEqual([
    'Error: There is no tool "telescope". There are: calculator.',
    'Error: calculator needs the argument "expression", a text.',
    "Error: calculator cannot read this: division by zero.",
    "Error: The arguments of calculator are not a JSON object.",
  ]);
  expect(step.metrics).toEqual({ valid_action: 1, tool_calls: 4, tool_errors: 4 });
});

test("a call that cannot be read is no answer: the model may try again", async () => {
  const env = await started(build());
  const step = await reply(env, '<tool_call>{"name": "calculator", "arguments": {</tool_call>');
  expect(step).toMatchObject({ kind: "continues", metrics: { valid_action: 0, tool_calls: 0 } });
  expect(String(contents(step)[0])).toContain("could not be read");
});

test("the turn limit cuts the episode off without making the last calls", async () => {
  let numCalls = 0;
  const counting: Tool = {
    name: "count",
    description: "",
    parameters: {},
    call: () => ({ kind: "ok", text: String(++numCalls) }),
  };
  const options = toolUseOptions.parse({ maxTurns: 2 });
  const env = await started(createToolUse(async () => [{ tools: [counting] }], options));
  expect(contents(await reply(env, callText("count", {})))).toEqual(["1"]);
  expect(await reply(env, callText("count", {}))).toMatchObject({
    kind: "truncated",
    metrics: { total_tool_calls: 1 },
  });
  expect(numCalls).toBe(1);
});

test("a slow tool is told to stop and the model is told why; a broken one fails the episode", async () => {
  let wasStopped = false;
  const slow: Tool = {
    name: "slow",
    description: "",
    parameters: {},
    call: (_, stop) =>
      new Promise(() => {
        stop.addEventListener("abort", () => {
          wasStopped = true;
        });
      }),
  };
  const broken: Tool = {
    ...slow,
    name: "broken",
    call: () => {
      throw new Error("no wires");
    },
  };
  const options = toolUseOptions.parse({ toolTimeoutMs: 20 });
  const env = await started(createToolUse(async () => [{ tools: [slow, broken] }], options));
  expect(contents(await reply(env, callText("slow", {})))).toEqual(["Error: slow took longer than 20 ms."]);
  expect(wasStopped).toBe(true);
  await expect(reply(env, callText("broken", {}))).rejects.toThrow("no wires");
});

test("an aborted episode rejects with the reason", async () => {
  const env = await started(build());
  const stop = AbortSignal.abort(new Error("enough"));
  const text = callText("calculator", { expression: "1" });
  await expect(async () => env.step({ text, isCut: false }, stop)).rejects.toThrow("enough");
});

test("long results are cut and empty ones are named", async () => {
  const echo: Tool = {
    name: "echo",
    description: "",
    parameters: {},
    call: ({ text }) => ({ kind: "ok", text: String(text) }),
  };
  const options = toolUseOptions.parse({ maxResultChars: 4 });
  const env = await started(createToolUse(async () => [{ tools: [echo] }], options));
  expect(contents(await reply(env, callText("echo", { text: "abcdef" }), callText("echo", { text: "" })))).toEqual([
    "abcd\n(cut: 6 characters in all)",
    "(no output)",
  ]);
});

test("two tools of one name are refused", async () => {
  const tool: Tool = { name: "twin", description: "", parameters: {}, call: () => ({ kind: "ok", text: "" }) };
  const factory = createToolUse(async () => [{ tools: [tool] }, { tools: [tool] }], toolUseOptions.parse({}));
  await expect(async () => factory.makeEnv(prompt, 0)).rejects.toThrow('Two tools are called "twin".');
});

test("JavaScript runs in its sandbox, and its errors come back", async () => {
  const env = await started(build({ code: ["javascript"] }));
  const step = await reply(
    env,
    callText("javascript", { code: "console.log([1, 2, 3].map((x) => x * x).join(' '))" }),
    callText("javascript", { code: "throw new Error('broken on purpose')" }),
  );
  expect(contents(step)[0]).toBe("1 4 9");
  expect(String(contents(step)[1])).toMatch(/^Error: .*broken on purpose/s);
});

describe.skipIf(!pythonSandbox.isAvailable)(
  "with bubblewrap (skipped where Python programs cannot be isolated)",
  () => {
    test("Python runs in its sandbox, and its errors come back", async () => {
      const env = await started(build({ code: ["python"] }));
      const step = await reply(
        env,
        callText("python", { code: "print(sum(range(101)))" }),
        callText("python", { code: "1 / 0" }),
      );
      expect(contents(step)[0]).toBe("5050");
      expect(String(contents(step)[1])).toMatch(/^Error: .*ZeroDivisionError/s);
    });
  },
);

test("tool use keeps the promises of environments", async () => {
  expect(await checkEnv(build(), { prompts: [prompt], numEpisodes: 3 })).toEqual([]);
});
