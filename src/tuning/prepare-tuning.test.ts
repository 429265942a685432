import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JsonValue } from "../flow/prompt.ts";
import { createProject } from "../run/init/create-project.ts";
import { loadRunFile } from "../run/load-run-file.ts";
import { prepareModel } from "../run/prepare-model.ts";
import { prepareTuning } from "./prepare-tuning.ts";
import { defineTuning } from "./tuning-config.ts";

type Row = Record<string, JsonValue>;

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string, more: Row = {}) => ({ role: "assistant", content, ...more });

/** The tokens of the byte tokenizer: one for each byte, one for each mark. */
const OPEN = (role: string) => 1 + role.length + 1;
const CLOSE = 2; // the end mark and a line end

function prepare(rows: Row[], changes: Row = {}, objective: Row = {}) {
  const run = {
    kind: "tuning",
    device: "cpu",
    model: { preset: "nano" },
    objective: { type: "supervised", ...objective },
    data: { type: "rows", rows },
    training: { optimizer: { lr: 1e-3 } },
    ...changes,
  };
  return prepareTuning(run, [], {});
}

/** Which tokens of each sequence the loss counts, as text. */
async function learned(rows: Row[], objective: Row = {}): Promise<string[]> {
  const { data } = await prepare(rows, {}, objective);
  return data.train.examples.flatMap(({ sequences }) =>
    sequences.map(({ tokenIds, lossMask }) =>
      [...tokenIds].map((id, i) => (lossMask[i] === 0 ? "" : id < 256 ? String.fromCharCode(id) : `<${id}>`)).join(""),
    ),
  );
}

test("only the replies of the assistant count, with the token that ends each", async () => {
  const messages = [
    { role: "system", content: "Be kind." },
    user("hi"),
    assistant("yo"),
    user("so?"),
    assistant("bye"),
  ];
  const { data } = await prepare([{ messages }]);
  expect(data.train.numLossTokens).toBe(3 + 4);
  const marks = OPEN("system") + 2 * OPEN("user") + 2 * OPEN("assistant") + 4 * CLOSE + (CLOSE - 1);
  expect(data.train.numTokens).toBe(marks + "Be kind.hiyoso?bye".length);
  expect(await learned([{ messages }])).toEqual(["yo<258>bye<258>"]);
});

test("the last reply alone, every token, or the turns that have a weight", async () => {
  const messages = [user("hi"), assistant("yo", { weight: 0 }), user("so?"), assistant("bye")];
  expect(await learned([{ messages }])).toEqual(["bye<258>"]);
  expect(await learned([{ messages }], { train: "last" })).toEqual(["bye<258>"]);
  expect(await learned([{ messages: messages.slice(0, 2) }], { train: "all" })).toEqual([
    "user\nhi<258>\n<257>assistant\nyo<258>",
  ]);
});

test.each<[string, Row, Row, string]>([
  ["prompt and completion", { prompt: "hi", completion: "yo" }, {}, "yo<258>"],
  ["question and answer", { question: "hi", answer: "yo" }, {}, "yo<258>"],
  ["instruction, input and output", { instruction: "sum", input: "1 2", output: "3" }, {}, "3<258>"],
  ["prompt and completion as messages", { prompt: [user("hi")], completion: [assistant("yo")] }, {}, "yo<258>"],
  [
    "speakers",
    {
      conversations: [
        { from: "human", value: "hi" },
        { from: "gpt", value: "yo" },
      ],
    },
    {},
    "yo<258>",
  ],
  ["messages as JSON text", { messages: JSON.stringify([user("hi"), assistant("yo")]) }, {}, "yo<258>"],
  ["text", { text: "all of it" }, {}, "ll of it<258>"],
  ["prompt and completion without a template", { prompt: "2+2=", completion: "4" }, { chat: false }, "4<258>"],
])("rows of %s are read", async (_name, row, objective, expected) => {
  expect(await learned([row], objective)).toEqual([expected]);
});

test("a call of a tool is learned as the template writes it", async () => {
  const call = { function: { name: "look", arguments: { at: "x" } } };
  const messages = [
    user("?"),
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", content: "y" },
    assistant("y"),
  ];
  const [text] = await learned([{ messages }]);
  expect(text).toMatch(/^<tool_call>\{.*"look".*\}<\/tool_call><258>y<258>$/);
});

test.each<[string, Row, RegExp]>([
  [
    "no known column",
    { ask: "hi" },
    /^data row 2 has nothing to learn: looked for messages, .* Its columns are: ask\.$/s,
  ],
  ["an empty completion", { prompt: "hi", completion: "" }, /^data row 2 has nothing in completion/],
  ["a completion that is a number", { prompt: "hi", completion: 4 }, /^data row 2 has no text in completion: got 4/],
  ["an empty reply", { messages: [user("hi"), assistant("")] }, /^data row 2 has an empty reply in messages\[1\]/],
  [
    "a misspelled role",
    { messages: [{ role: "usr", content: "hi" }] },
    /has the role "usr" in messages\[0\]\. Did you mean user\?/,
  ],
  [
    "no reply",
    { messages: [user("hi")] },
    /^data row 2 has no reply to learn: none of its messages is the assistant's/,
  ],
  ["replies without weight", { messages: [user("hi"), assistant("a", { weight: 0 })] }, /all of them have weight 0/],
  ["messages that are text", { messages: "hi" }, /^data row 2 has no list of messages in messages: got "hi"/],
  [
    "tools that are no list",
    { messages: [user("a"), assistant("b")], tools: 1 },
    /has tools that are no list of objects/,
  ],
])("a row with %s is refused before anything starts, or skipped and named", async (_name, row, message) => {
  const good: Row = { prompt: "hi", completion: "yo" };
  await expect(prepare([good, row])).rejects.toThrow(message);
  const { data } = await prepare([good, row], { data: { type: "rows", rows: [good, row], skipInvalid: true } });
  expect(data.train.examples).toHaveLength(1);
  expect(data.train.statements).toEqual(["data: 1 row cannot be read and is skipped (data row 2)."]);
});

test("rows that are too long are left out or cut, counted and named", async () => {
  const rows = [
    { prompt: "hi", completion: "yo" },
    { prompt: "hi", completion: "y".repeat(50) },
  ];
  const short = await prepare(rows, { contextLength: 40 });
  expect(short.data.train.examples).toHaveLength(1);
  expect(short.lines).toContain("data: 1 row is left out: longer than contextLength 40 (data row 2).");
  const cut = await prepare(rows, { contextLength: 40, tooLong: "cut" });
  expect(cut.data.train.examples.map(({ sequences }) => sequences[0]!.tokenIds.length)).toEqual([24, 40]);
  expect(cut.lines).toContain("data: 1 row is cut to contextLength 40 (data row 2).");
  await expect(prepare(rows.slice(1), { contextLength: 40 })).rejects.toThrow(
    /^data has nothing to learn from\. data: 1 row/,
  );
});

test("columns are named by what they hold, and other names are refused", async () => {
  const rows = [{ ask: "hi", say: { text: "yo" } }];
  const data = (fields: Row): Row => ({ data: { type: "rows", rows, fields } });
  const { data: read } = await prepare(rows, data({ prompt: "ask", completion: "say.text" }));
  expect(read.train.numLossTokens).toBe(3);
  await expect(prepare(rows, data({ promt: "ask" }))).rejects.toThrow(/data\.fields\.promt .* Did you mean prompt\?/);
});

test("files are read, and one that is not there is named", async () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-tuning-data-"));
  const path = join(folder, "chats.jsonl");
  try {
    writeFileSync(path, `${JSON.stringify({ prompt: "hi", completion: "yo" })}\n${JSON.stringify({ prompt: "hi" })}\n`);
    const file = (changes: Row) => defineTuningFile({ type: "jsonl", path, ...changes });
    await expect(prepareTuning(file({}), [], {})).rejects.toThrow(/chats\.jsonl row 2 has nothing to learn/);
    expect((await prepareTuning(file({ skipInvalid: true }), [], {})).data.train.examples).toHaveLength(1);
    await expect(prepareTuning(file({ path: "nowhere.jsonl" }), [], {})).rejects.toThrow(
      /^data\.path names "nowhere\.jsonl", and .* does not exist/,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

function defineTuningFile(data: Row) {
  const run = { device: "cpu", model: { preset: "nano" as const }, training: { optimizer: { lr: 1e-3 } } };
  // As in a YAML file, whose content no compiler has seen.
  return { ...defineTuning({ ...run, objective: { type: "supervised" }, data: { type: "rows", rows: [{}] } }), data };
}

test("a template that ends replies with a token that sampling does not stop at is spoken of", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-tuning-ends-"));
  try {
    await prepareModel(
      { model: { preset: "nano", path: null, dtype: "auto", lora: null, quantization: null }, seed: 1 },
      [],
      root,
    );
    const path = join(root, "model");
    const rows = [{ prompt: "hi", completion: "yo" }];
    const told = async () => (await prepare(rows, { model: { path }, contextLength: 64 })).lines.at(-1);
    expect(await told()).not.toContain("eos_token_id");
    const settings = JSON.parse(readFileSync(join(path, "tokenizer_config.json"), "utf8"));
    writeFileSync(join(path, "tokenizer_config.json"), JSON.stringify({ ...settings, eos_token: "<|endoftext|>" }));
    writeFileSync(join(path, "generation_config.json"), JSON.stringify({ eos_token_id: [256] }));
    expect(await told()).toBe(
      "The template ends replies with <|im_end|>, and the tokens that end a reply are: <|endoftext|>. " +
        "Add 258 to eos_token_id in generation_config.json, or sampling will run on.",
    );
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("what cannot work together is refused", async () => {
  const rows = [{ prompt: "hi", completion: "yo" }];
  await expect(prepare(rows, { validation: { patience: 2, data: { type: "rows", rows } } })).rejects.toThrow(
    /validation\.patience is 2 and validation\.every is 0/,
  );
  const training = { optimizer: { lr: 1e-3 }, maxTokensPerMicrobatch: 100 };
  await expect(prepare(rows, { training })).rejects.toThrow(/maxTokensPerMicrobatch must hold a whole sequence/);
  await expect(prepare(rows, { validation: {} })).rejects.toThrow(/of the 1 rows of data none falls to validation/);
  await expect(prepare(rows, { model: {} })).rejects.toThrow(/model names no weights/);
  await expect(prepare(rows, { objective: { type: "supervized" } })).rejects.toThrow(/objective\.type/);
  await expect(prepare(rows, { loop: { epoch: 3 } })).rejects.toThrow(/loop\.epoch.*"?epochs/s);
});

test("a new project for supervised learning has a run file and conversations that are accepted", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-init-tuning-"));
  try {
    createProject(root, { task: "supervised", model: "nano", name: "first", dependency: "^1.2.3" });
    // The import would load the whole library a second time, beside the copy under test.
    const text = readFileSync(join(root, "run.ts"), "utf8").replace('import { defineTuning } from "reroll";', "");
    const define = 'const defineTuning = (run: object) => ({ kind: "tuning", ...run });\n';
    writeFileSync(join(root, "alone.ts"), define + text);
    const sets = [`data.path=${join(root, "chats.jsonl")}`];
    const { config, data } = await prepareTuning(await loadRunFile(join(root, "alone.ts")), sets, {});
    expect(config).toMatchObject({ name: "first", objective: { type: "supervised", train: "assistant" } });
    expect(data.train.examples).toHaveLength(4);
  } finally {
    rmSync(root, { recursive: true });
  }
});
