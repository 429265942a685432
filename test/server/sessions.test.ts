/** Episodes: tokens in, tokens out over many turns, forks where that breaks, and how they end. */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { createTokenizer, type Tokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { createServer } from "../../src/generation/server/create-server.ts";
import { createScriptedEngine } from "../../src/testing/scripted-generate.ts";
import { fixtureTokenizer, type RunningServer, type StartOptions, startServer } from "./start-server.ts";

interface ChatAnswer {
  readonly prefix: string | null;
  readonly message: Record<string, unknown>;
  readonly promptIds: readonly number[];
  readonly tokenIds: readonly number[];
}

let running: RunningServer | undefined;
afterEach(async () => {
  expect(running?.ownFaults ?? []).toEqual([]);
  await running?.close();
  running = undefined;
});

async function start(options: StartOptions) {
  const started = await startServer(options);
  running = started;
  const chat = async (messages: readonly object[], session = "s", more: object = {}): Promise<ChatAnswer> => {
    const body = { messages, return_token_ids: true, ...more };
    const response = await started.post("/v1/chat/completions", body, { "x-reroll-session": session });
    const answer = (await response.json()) as {
      choices: { message: Record<string, unknown>; token_ids: number[] }[];
      prompt_token_ids: number[];
    };
    const [choice] = answer.choices;
    return {
      prefix: response.headers.get("x-reroll-prefix"),
      message: choice!.message,
      promptIds: answer.prompt_token_ids,
      tokenIds: choice!.token_ids,
    };
  };
  const samples = async (session = "s") => {
    const record = (await (await fetch(`${started.url}/v1/sessions/${session}`)).json()) as {
      samples: { turns: object[] }[];
      broken_turns: object[];
    };
    return { turns: record.samples.map(({ turns }) => turns.length), broken: record.broken_turns.length };
  };
  return { ...started, chat, samples };
}

const user = (content: string) => ({ role: "user", content });

test("a reply that the tokenizer would write in other tokens keeps those that were drawn", async () => {
  const { chat, tokenizer, engine } = await start({ contextLength: 4000 });
  // Random bytes are rarely valid UTF-8: encoding their text again would give other tokens.
  const first = await chat([user("Hi")], "s", { max_tokens: 40, seed: 3 });
  expect(first.message.content).toContain("\ufffd");
  const second = await chat([user("Hi"), first.message, user("Go on")], "s", { max_tokens: 40, seed: 4 });
  expect(second.prefix).toBe("extended");
  const before = [...first.promptIds, ...first.tokenIds];
  expect(second.promptIds.slice(0, before.length)).toEqual(before);
  const isEnded = [256, 258].includes(first.tokenIds.at(-1)!);
  const rest = `${isEnded ? "" : "<|im_end|>"}\n<|im_start|>user\nGo on<|im_end|>\n<|im_start|>assistant\n`;
  expect(tokenizer.decode(second.promptIds.slice(before.length))).toBe(rest);
  expect(engine.status().counters.cachedTokens).toBe(before.length - 1);
});

test("a whole random episode is one sample whose tokens are all there in order", async () => {
  const { chat, server, post } = await start({ contextLength: 4000 });
  const messages: object[] = [user("Hi")];
  for (let turn = 0; turn < 8; turn++) {
    const { message, prefix } = await chat(messages, "s", {
      max_tokens: 10 + turn,
      seed: turn,
      logit_bias: { 256: -100 },
    });
    expect(prefix).toBe(turn === 0 ? "new" : "extended");
    messages.push(message, user(`turn ${turn}`));
  }
  await post("/v1/sessions/s/reward", { reward: -2 });
  const [episode] = server.sessions.takeFinished();
  expect(episode?.samples.map(({ turns }) => turns.length)).toEqual([8]);
  const { turns } = episode!.samples[0]!;
  for (const [index, turn] of turns.entries()) {
    const next = turns[index + 1]?.promptIds ?? Int32Array.of();
    const end = turn.promptIds.length + turn.tokenIds.length;
    if (index < 7) expect([...next.slice(0, end)]).toEqual([...turn.promptIds, ...turn.tokenIds]);
    expect(turn.samplerLogprobs).toHaveLength(turn.tokenIds.length);
  }
});

test("a reply that the client changed starts a new sample", async () => {
  const { chat, samples } = await start({ reply: (_prompt, index) => `answer ${index}` });
  await chat([user("Hi")]);
  const changed = await chat([user("Hi"), { role: "assistant", content: "ANSWER 0" }, user("Go on")]);
  expect(changed.prefix).toBe("forked; reason=history; at=21");
  expect(await samples()).toEqual({ turns: [1, 1], broken: 0 });
});

test("a new conversation in the same episode is a new sample and no fork", async () => {
  const { chat, samples } = await start({ reply: (_prompt, index) => `answer ${index}` });
  const first = await chat([user("Hi")]);
  expect((await chat([user("Something else")])).prefix).toBe("new");
  expect((await chat([user("Hi"), first.message, user("Go on")])).prefix).toBe("extended");
  expect(await samples()).toEqual({ turns: [2, 1], broken: 0 });
});

test("an earlier reply keeps its tokens even when messages before it were dropped", async () => {
  const { chat, tokenizer } = await start({ contextLength: 4000 });
  const first = await chat([user("Hi")], "s", { max_tokens: 30, seed: 3, ignore_eos: true });
  const cut = await chat([first.message, user("Go on")], "other", { max_tokens: 5 });
  const start_ = tokenizer.encode("<|im_start|>assistant\n").length;
  expect(cut.promptIds.slice(start_, start_ + 30)).toEqual(first.tokenIds);
});

test("of tool calls that look alike, each is found by its id", async () => {
  const written: readonly string[] = ['{"name":"f","arguments":{}}', '{"name": "f", "arguments": {}}'];
  const call = (index: number) => (index < 2 ? `<tool_call>${written[index]}</tool_call>` : "done");
  const { chat } = await start({ reply: (_prompt, index) => call(index) });
  const tools = [{ type: "function", function: { name: "f" } }];
  const result = { role: "tool", content: "x" };
  const one = await chat([user("one")], "s", { tools });
  const two = await chat([user("two")], "s", { tools });
  expect(one.tokenIds).not.toEqual(two.tokenIds);
  expect((await chat([user("one"), one.message, result], "s", { tools })).prefix).toBe("extended");
  expect((await chat([user("two"), two.message, result], "s", { tools })).prefix).toBe("extended");
});

test("of replies with the same text but other tokens, the one that answered this prompt is taken", async () => {
  // Two invalid bytes read as the same two replacement characters.
  const replies = [[0xff, 0xfe], [0xfe, 0xff], [65], [65]];
  const engine = createScriptedEngine({ reply: (_request, index) => ({ tokenIds: replies[index] ?? [] }) });
  const parts = {
    engine,
    tokenizer: fixtureTokenizer,
    modelName: "m",
    clock: Date.now,
    newId: randomUUID,
    onError: () => {},
  };
  const server = createServer(parts);
  const url = await server.listen();
  const ask = async (messages: readonly object[]) => {
    const headers = { "content-type": "application/json", "x-reroll-session": "s" };
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({ messages }),
    });
    const { choices } = (await response.json()) as { choices: { message: object }[] };
    return { message: choices[0]!.message, prefix: response.headers.get("x-reroll-prefix") };
  };
  const one = await ask([user("one")]);
  const two = await ask([user("two")]);
  expect(one.message).toEqual(two.message);
  expect((await ask([user("one"), one.message, user("x")])).prefix).toBe("extended");
  expect((await ask([user("two"), two.message, user("x")])).prefix).toBe("extended");
  await server.close();
});

test("replies that end with one end token and with another are one sample, each with the end it was sampled with", async () => {
  const { chat, samples, tokenizer } = await start({
    reply: (_, index) => (index % 2 === 0 ? "yes<|endoftext|>" : "yes"),
  });
  const messages: object[] = [];
  for (let turn = 0; turn < 4; turn++) {
    messages.push(user("so?"));
    const { message, prefix } = await chat(messages);
    expect(prefix).toBe(turn === 0 ? "new" : "extended");
    messages.push(message);
  }
  const { promptIds } = await chat([...messages, user("end")]);
  const said = tokenizer.decode(promptIds);
  expect(said.match(/yes<\|\w+\|>\n/g)).toEqual(
    ["endoftext", "im_end", "endoftext", "im_end"].map((end) => `yes<|${end}|>\n`),
  );
  expect(await samples()).toEqual({ turns: [5], broken: 0 });
});

test("of replies that look alike to the client, each keeps what it was, special tokens in its midst included", async () => {
  const { chat, samples } = await start({ reply: (_, index) => (index % 2 === 0 ? "<|im_start|>yes" : "yes") });
  const messages: object[] = [];
  for (let turn = 0; turn < 4; turn++) {
    messages.push(user("so?"));
    const { message, prefix } = await chat(messages);
    expect([message.content, prefix]).toEqual(["yes", turn === 0 ? "new" : "extended"]);
    messages.push(message);
  }
  expect(await samples()).toEqual({ turns: [4], broken: 0 });
});

test("choices of one call are samples of their own, and the next turn goes on with the one that was taken", async () => {
  const { post, chat, samples } = await start({});
  const body = { messages: [user("Hi")], n: 3, seed: 1, max_tokens: 12, ignore_eos: true };
  const response = await post("/v1/chat/completions", body, { "x-reroll-session": "s" });
  const { choices } = (await response.json()) as { choices: { message: object }[] };
  expect(await samples()).toEqual({ turns: [1, 1, 1], broken: 0 });
  const next = await chat([user("Hi"), choices[1]!.message, user("Go on")], "s", { max_tokens: 2 });
  expect(next.prefix).toBe("extended");
  expect(await samples()).toEqual({ turns: [1, 2, 1], broken: 0 });
});

test("two calls that go on from the same turn at the same time become two samples", async () => {
  const { chat, samples } = await start({ reply: (_prompt, index) => `answer ${index}` });
  const first = await chat([user("Hi")]);
  const history = [user("Hi"), first.message];
  const both = await Promise.all([chat([...history, user("a")]), chat([...history, user("b")])]);
  expect(both.map(({ prefix }) => prefix)).toEqual(["extended", "extended"]);
  expect(await samples()).toEqual({ turns: [2, 1], broken: 0 });
});

test("text completions go on from the tokens of the session too", async () => {
  const { post, tokenizer } = await start({});
  const complete = async (prompt: string, seed: number) => {
    const body = { prompt, max_tokens: 20, seed, ignore_eos: true, return_token_ids: true, logit_bias: { 65: 5 } };
    const response = await post("/v1/completions", body, { "x-reroll-session": "s" });
    const { choices } = (await response.json()) as { choices: { token_ids: number[]; prompt_token_ids: number[] }[] };
    return { ...choices[0]!, prefix: response.headers.get("x-reroll-prefix") };
  };
  const first = await complete("Once", 1);
  const second = await complete(`Once${tokenizer.decode(first.token_ids)} more`, 2);
  expect(second.prefix).toBe("extended");
  expect(second.prompt_token_ids.slice(4, 24)).toEqual(first.token_ids);
  const third = await complete("Once upon", 3);
  expect(third.prefix).toBe("forked; reason=history; at=4");
});

test("a call that breaks off is in no sample, and can be made again", async () => {
  const { chat, samples, engine, url } = await start({ contextLength: 4000 });
  const controller = new AbortController();
  const body = JSON.stringify({ messages: [user("Hi")], ignore_eos: true });
  const headers = { "content-type": "application/json", "x-reroll-session": "s" };
  const broken = fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body, signal: controller.signal });
  await expect.poll(() => engine.status().runningRequests, { interval: 1 }).toBe(1);
  controller.abort();
  await expect(broken).rejects.toThrow();
  await expect.poll(() => engine.status().counters.aborted, { interval: 1 }).toBe(1);
  expect((await chat([user("Hi")], "s", { max_tokens: 3 })).prefix).toBe("new");
  expect(await samples()).toEqual({ turns: [1], broken: 1 });
});

describe("how sessions end", () => {
  const ask = (post: RunningServer["post"], session: string) =>
    post("/v1/completions", { prompt: "a", max_tokens: 1 }, { "x-reroll-session": session });

  test("a rewarded session takes no more calls and no second reward", async () => {
    const { post, server } = await start({});
    await ask(post, "s");
    expect((await post("/v1/sessions/s/reward", { reward: 1 })).status).toBe(200);
    const late = await ask(post, "s");
    expect([late.status, late.headers.get("x-should-retry")]).toEqual([409, "false"]);
    expect(await late.json()).toMatchObject({ error: { code: "session_ended" } });
    expect((await post("/v1/sessions/s/reward", { reward: 1 })).status).toBe(409);
    expect(server.sessions.takeFinished().map(({ id }) => id)).toEqual(["s"]);
    expect((await ask(post, "s")).status).toBe(200);
  });

  test("silence ends a session without a reward, but not while a call is running", async () => {
    let nowMs = 1_000_000;
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let isHeld = false;
    const { post, server, engine } = await start({
      ...{ clock: () => nowMs, server: { sessions: { idleTimeoutMs: 60_000 } } },
      beforeStep: async () => (isHeld ? held : undefined),
    });
    await ask(post, "quiet");
    isHeld = true;
    const running = ask(post, "busy");
    await expect.poll(() => engine.status().queuedRequests).toBe(1);
    nowMs += 60_001;
    server.sessions.endIdle();
    expect(server.sessions.takeFinished().map(({ id, end }) => [id, end.kind])).toEqual([["quiet", "timed-out"]]);
    release();
    await running;
    nowMs += 60_001;
    server.sessions.endIdle();
    expect(server.sessions.takeFinished().map(({ id }) => id)).toEqual(["busy"]);
  });

  test("a deleted session is handed over as one", async () => {
    const { post, server, url } = await start({});
    await ask(post, "s");
    const response = await fetch(`${url}/v1/sessions/s`, { method: "DELETE" });
    expect(await response.json()).toMatchObject({ id: "s", status: "deleted", num_turns: 1 });
    expect(server.sessions.takeFinished().map(({ end }) => end)).toEqual([{ kind: "deleted" }]);
  });

  test("open and ended sessions are bounded", async () => {
    const { post, server } = await start({ server: { sessions: { maxOpen: 2, maxFinished: 1, maxTurns: 2 } } });
    expect((await ask(post, "a")).status).toBe(200);
    expect((await ask(post, "b")).status).toBe(200);
    const refused = await ask(post, "c");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    await ask(post, "a");
    expect(await (await ask(post, "a")).json()).toMatchObject({ error: { code: "session_full" } });
    for (const id of ["a", "b"]) await post(`/v1/sessions/${id}/reward`, { reward: 1 });
    expect(server.sessions.takeFinished().map(({ id }) => id)).toEqual(["b"]);
    expect(server.sessions.dropped.total).toBe(1);
  });

  test("a call that is refused half-way does not keep its session open", async () => {
    let nowMs = 0;
    const { post, server } = await start({
      clock: () => nowMs,
      server: { sessions: { maxTurns: 3, idleTimeoutMs: 10 } },
    });
    const refused = await post("/v1/completions", { prompt: ["a", "b"], n: 2 }, { "x-reroll-session": "s" });
    expect(await refused.json()).toMatchObject({ error: { code: "session_full" } });
    nowMs = 11;
    server.sessions.endIdle();
    expect(server.sessions.takeFinished().map(({ end }) => end.kind)).toEqual(["timed-out"]);
  });

  test("a trainer can wait for the next episode, and stop waiting", async () => {
    const { post, server } = await start({});
    await ask(post, "s");
    const waiting = server.sessions.waitForFinished();
    await post("/v1/sessions/s/reward", { reward: 1 });
    await waiting;
    expect(server.sessions.takeFinished(1)).toHaveLength(1);
    const controller = new AbortController();
    const stopped = server.sessions.waitForFinished(controller.signal);
    controller.abort();
    await stopped;
    expect(server.sessions.takeFinished()).toEqual([]);
  });

  test("a name that cannot be a session's is refused", async () => {
    const { post } = await start({});
    expect(await (await ask(post, "a b")).json()).toMatchObject({ error: { param: "x-reroll-session" } });
  });
});

/** The fixture's tokenizer with the chat template of Qwen3 in small: it drops the thinking of turns before the last question. */
function thinkingTokenizer(): Tokenizer {
  const template = [
    "{%- set ns = namespace(last=0) %}",
    "{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}",
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}",
    "{%- if m.role == 'assistant' and '</think>' in m.content and loop.index0 < ns.last %}",
    "{{- m.content.split('</think>')[-1].lstrip('\\n') }}{%- else %}{{- m.content }}{%- endif %}",
    "{{- '<|im_end|>\\n' }}{%- endfor %}",
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
  ].join("");
  const files = new Map(fixtureTokenizer.files);
  files.set("chat_template.jinja", Buffer.from(template));
  return createTokenizer(files, "thinking");
}

test("a template that drops thinking forks once per question, says so, and tool turns in between go on", async () => {
  const { chat, samples, url } = await start({
    tokenizer: thinkingTokenizer(),
    reply: (_prompt, index) => `<think>thought ${index}</think>\n\nanswer ${index}`,
  });
  const messages: object[] = [user("one")];
  const prefixes: (string | null)[] = [];
  const step = async (next: object) => {
    const { message, prefix } = await chat(messages);
    prefixes.push(prefix);
    messages.push(message, next);
  };
  await step({ role: "tool", content: "result" });
  await step(user("two"));
  await step({ role: "tool", content: "result" });
  await step(user("three"));
  await step(user("four"));
  expect(prefixes.map((prefix) => prefix?.split(";")[0])).toEqual(["new", "extended", "forked", "extended", "forked"]);
  expect(prefixes[2]).toContain("reason=template");
  expect(await samples()).toEqual({ turns: [2, 2, 1], broken: 0 });
  const metrics = await (await fetch(`${url}/metrics`)).text();
  expect(metrics).toContain('reroll_prefix_checks_total{outcome="forked"} 2');
});

test.runIf(existsSync("../shared/tokenizers/qwen3"))(
  "a tool loop with Qwen3's own template and tokens is one sample",
  async () => {
    const tokenizer = await loadTokenizer("../shared/tokenizers/qwen3");
    const call = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {"x":1}}\n</tool_call>';
    const { chat, samples } = await start({
      ...{ tokenizer, contextLength: 4000 },
      reply: (_prompt, index) => (index < 2 ? call : "<think>\nok\n</think>\n\nDone."),
    });
    const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
    const messages: object[] = [user("Hi")];
    const prefixes: (string | null)[] = [];
    for (let turn = 0; turn < 3; turn++) {
      const { message, prefix } = await chat(messages, "s", { tools });
      prefixes.push(prefix);
      messages.push(message, { role: "tool", content: "42" });
    }
    expect(prefixes).toEqual(["new", "extended", "extended"]);
    messages[messages.length - 1] = user("Next question");
    expect((await chat(messages, "s", { tools })).prefix).toContain("forked; reason=template");
    expect(await samples()).toEqual({ turns: [3, 1], broken: 0 });
  },
);
