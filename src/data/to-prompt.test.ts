import { describe, expect, test } from "vitest";
import { deriveSeed } from "../random/random.ts";
import { chooseSchema, detectSchema, type SchemaChoice } from "./choose-schema.ts";
import type { DataRow } from "./data-row.ts";
import { ownId, toPrompt } from "./to-prompt.ts";

function make(row: DataRow, choice: SchemaChoice = {}) {
  const schema = chooseSchema(row, choice, "rows.jsonl");
  const made = toPrompt({ row, file: "rows.jsonl", index: 4 }, "rows:4", schema);
  if ("missing" in made) throw new Error(`missing ${made.missing}`);
  return { schema, own: ownId(row, schema), ...made };
}

const user = (content: string) => ({ role: "user", content });
const system = (content: string) => ({ role: "system", content });
const BOXED = "\n\nPlease reason step by step, and put your final answer within \\boxed{}.";

describe("schemas that are detected", () => {
  test("gsm8k takes what follows ####, without commas, and keeps the solution", () => {
    const { schema, prompt, content } = make({
      question: "How many?",
      answer: "2 * 600 = <<2*600=1200>>1,200\n#### 1,200 ",
    });
    expect(schema.statement).toBe("schema gsm8k (detected): question from question, truth from final_answer");
    expect(prompt).toEqual({
      id: "rows:4",
      domain: "math",
      seed: deriveSeed(0, "rows:4"),
      messages: [user(`How many?${BOXED}`)],
      truth: "1200",
      extra: { answer: "2 * 600 = <<2*600=1200>>1,200\n#### 1,200 " },
    });
    expect(content).toBe("How many?");
  });

  test("math takes the answer, or the last box of the solution with its inner braces", () => {
    expect(make({ problem: "x?", answer: "7", level: 2 }).prompt).toMatchObject({
      truth: "7",
      domain: "math",
      extra: { level: 2 },
    });
    const solution = "First \\boxed{1}, then $\\boxed{\\frac{1}{\\{2\\}}}$.";
    expect(make({ problem: "x?", solution }).prompt).toMatchObject({
      truth: "\\frac{1}{\\{2\\}}",
      extra: { solution },
    });
  });

  test("roll reads messages from JSON text, and the reference or the tests", () => {
    const messages = JSON.stringify([system("Think."), user("1 + 1?")]);
    const row = { id: "9", messages, ground_truth: "2", tag: "deepmath", difficulty: "4.5", test_cases: "" };
    const { prompt, own, content } = make(row);
    expect(own).toBe("9");
    expect(prompt).toMatchObject({ domain: "deepmath", messages: [system("Think."), user("1 + 1?")], truth: "2" });
    expect(prompt.extra.difficulty).toBe("4.5");
    expect(content).toBe(JSON.stringify([user("1 + 1?")]));

    const code = {
      ...row,
      domain: "code",
      case_type: "pytest",
      test_case_function: "check",
      test_cases: '["assert f(1)"]',
    };
    expect(make(code).prompt).toMatchObject({
      domain: "code",
      truth: { case_type: "pytest", test_case_function: "check", test_cases: '["assert f(1)"]' },
    });
  });

  test("verl reads messages, the ground truth inside of reward_model, and the data source", () => {
    const row = {
      data_source: "openai/gsm8k",
      prompt: [user("1 + 1?")],
      ability: "math",
      reward_model: { style: "rule", ground_truth: "2" },
      extra_info: { index: 3, split: "train" },
    };
    expect(make(row).prompt).toMatchObject({
      domain: "openai/gsm8k",
      messages: [user("1 + 1?")],
      truth: "2",
      extra: { ability: "math", reward_model: { style: "rule" }, extra_info: { index: 3 } },
    });
    expect(make(row, { domain: { "openai/gsm8k": "math" } }).prompt.domain).toBe("math");
    expect(make(row, { domain: "all" }).prompt.domain).toBe("all");
  });

  test("humaneval keeps tests, entry point and prompt as the truth", () => {
    const row = {
      task_id: "HumanEval/0",
      prompt: "def f():\n",
      test: "def check(c): ...",
      entry_point: "f",
      canonical_solution: "x",
    };
    const { prompt, own } = make(row);
    expect(own).toBe("HumanEval/0");
    expect(prompt.truth).toEqual({ test: "def check(c): ...", entry_point: "f", prompt: "def f():\n" });
    expect(prompt.messages[0]?.content).toContain("```python\ndef f():\n\n```");
    expect(prompt.domain).toBe("code");
  });

  test("mbpp shows its tests and keeps the parts of the truth that are there", () => {
    const row = {
      text: "Add.",
      test_list: ["assert add(1, 2) == 3", "assert add(0, 0) == 0"],
      test_setup_code: "",
      task_id: 11,
    };
    const { prompt, own } = make(row);
    expect(own).toBe("11");
    expect(prompt.truth).toEqual({ test_list: row.test_list, test_setup_code: "" });
    expect(prompt.messages[0]?.content).toContain("assert add(1, 2) == 3\nassert add(0, 0) == 0");
  });

  test("ifeval keeps instructions and their arguments, without the empty ones of Parquet files", () => {
    const row = {
      key: 5,
      prompt: "Write.",
      instruction_id_list: ["a:b"],
      kwargs: [{ num_words: 300, relation: null }],
    };
    expect(make(row).prompt).toMatchObject({
      domain: "instructions",
      messages: [user("Write.")],
      truth: { instruction_id_list: ["a:b"], kwargs: [{ num_words: 300 }] },
    });
  });

  test("gpqa puts the answers in an order of the row's own, and the letter of the right one into the truth", () => {
    const row = {
      Question: "Why?",
      "Correct Answer": "right",
      "Incorrect Answer 1": "wrong 1",
      "Incorrect Answer 2": "wrong 2",
      "Incorrect Answer 3": "wrong 3",
    };
    const letters = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map((id) => {
      const made = toPrompt({ row, file: "f", index: 0 }, id, chooseSchema(row, {}, "f"));
      if ("missing" in made) throw new Error(made.missing);
      expect(made.prompt.messages[0]?.content).toContain(`${made.prompt.truth}) right`);
      return made.prompt.truth;
    });
    expect(new Set(letters).size).toBeGreaterThan(2);
  });

  test("plain takes a prompt, a question or messages, and an answer, a truth or none", () => {
    expect(make({ question: "1 + 1?", answer: 2 }).prompt).toMatchObject({
      messages: [user("1 + 1?")],
      truth: 2,
      domain: "general",
    });
    expect(make({ prompt: "Hi", truth: { a: [1] }, domain: "chat" }).prompt).toMatchObject({
      truth: { a: [1] },
      domain: "chat",
    });
    expect(make({ prompt: [user("Hi")] }).prompt).toMatchObject({ messages: [user("Hi")], truth: null });
    expect(make({ prompt: [user("Hi")] }).schema.statement).toBe(
      "schema plain (detected): question from prompt, no truth",
    );
    const tools = [{ type: "function", function: { name: "f" } }];
    expect(make({ messages: [user("Hi")], tools: JSON.stringify(tools) }).prompt.tools).toEqual(tools);
  });
});

describe("fields and templates", () => {
  const row = { exercise: "1 + 1?", meta: { result: "2" }, hint: "count" };

  test("fields name the columns, and template the texts", () => {
    const { prompt, schema } = make(row, {
      fields: { question: "exercise", truth: "meta.result" },
      template: { system: "Hint: {hint}", user: "Q: {question}" },
    });
    expect(prompt).toMatchObject({
      messages: [system("Hint: count"), user("Q: 1 + 1?")],
      truth: "2",
      extra: { hint: "count", meta: { result: "2" } },
    });
    expect(schema.name).toBe("plain");
  });

  test("a named schema keeps its template with other columns", () => {
    const { prompt } = make({ task: "x?", gold: "7" }, { schema: "math", fields: { question: "task", truth: "gold" } });
    expect(prompt).toMatchObject({ messages: [user(`x?${BOXED}`)], truth: "7", domain: "math" });
  });

  test("a system text takes the place of the row's, a user text that of its messages", () => {
    const messages = [system("old"), user("1 + 1?")];
    expect(make({ messages }, { template: { system: "new" } }).prompt.messages).toEqual([
      system("new"),
      user("1 + 1?"),
    ]);
    expect(make({ messages }, { template: { user: "> {question}" } }).prompt.messages).toEqual([user("> 1 + 1?")]);
  });

  test("what a row asks does not depend on the template", () => {
    expect(make(row, { fields: { question: "exercise" }, template: { user: "Other words: {question}" } }).content).toBe(
      "1 + 1?",
    );
  });
});

describe("rows that do not fit", () => {
  test("no schema fits: the error lists the columns and what is looked for", () => {
    expect(() => detectSchema({ foo: 1, bar: 2 }, "rows.jsonl")).toThrow(
      /The rows of rows\.jsonl do not fit any known schema: got the columns foo, bar\. What is looked for:\n {2}verl: .*fields: \{ question/s,
    );
  });

  test("the schema that was asked for does not fit", () => {
    expect(() => make({ problem: "x", answer: "y" }, { schema: "gsm8k" })).toThrow(
      "do not fit the schema gsm8k: got the columns problem, answer",
    );
  });

  test("a misspelled column is found at the first row", () => {
    expect(() => make({ problem: "x", answer: "y" }, { fields: { truth: "anwser" } })).toThrow(
      'fields.truth names the column "anwser", which rows.jsonl does not have. Its columns are: problem, answer.',
    );
  });

  test("a later row without question or truth is incomplete", () => {
    const schema = chooseSchema({ question: "a", answer: "1 #### 1" }, {}, "f");
    const made = (row: DataRow) => toPrompt({ row, file: "f", index: 1 }, "f:1", schema);
    expect(made({ question: "b", answer: "no number" })).toEqual({ missing: "final_answer" });
    expect(made({ question: " ", answer: "#### 1" })).toEqual({ missing: "question" });
    expect(made({})).toEqual({ missing: "question" });
  });

  test("messages that are none are an error that names the row", () => {
    expect(() => make({ messages: "not JSON", ground_truth: "2" })).toThrow(
      'rows.jsonl row 5 has messages that are no list of { role, content }: got "not JSON". Its columns are: messages, ground_truth.',
    );
    expect(() => make({ messages: [{ content: "x" }] })).toThrow("row 5 has messages");
    expect(() => make({ messages: [] })).toThrow("row 5 has messages");
  });
});
