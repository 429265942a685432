/** The row schemas that are known by name. The order is that of detection: the ones that ask for more come first. */
import type { JsonValue } from "../flow/prompt.ts";
import { deriveSeed, Random } from "../random/random.ts";
import { type DataRow, isDataRow } from "./data-row.ts";
import type { RowFields, RowSchema } from "./row-schema.ts";

const boxed = "{question}\n\nPlease reason step by step, and put your final answer within \\boxed{}.";

/** Rows of verl: messages in `prompt`, truth in `reward_model.ground_truth`, the reward chosen by `data_source`. */
const verl: RowSchema = {
  columns: "prompt (messages), reward_model {ground_truth}, data_source",
  fits: (row) => "prompt" in row && isDataRow(row.reward_model) && "ground_truth" in row.reward_model,
  fields: (row) => ({
    messages: "prompt",
    truth: "reward_model.ground_truth",
    ...("data_source" in row && { domain: "data_source" }),
  }),
  template: {},
  domain: "general",
};

/** Rows of ROLL: messages as JSON text, and either an answer in `ground_truth` or tests. */
const roll: RowSchema = {
  columns: "messages (JSON text), ground_truth or test_cases, domain or tag",
  fits: (row) => "messages" in row && ("ground_truth" in row || "test_cases" in row),
  derive: (row) => ({ ...row, reference: rollReference(row), route: row.domain || row.tag || "general" }),
  fields: (row) => ({ messages: "messages", truth: "reference", domain: "route", ...("id" in row && { id: "id" }) }),
  template: {},
  domain: "general",
};

const humaneval: RowSchema = {
  columns: "task_id, prompt, test, entry_point",
  fits: (row) => hasAll(row, ["prompt", "test", "entry_point"]),
  fields: (row) => ({
    question: "prompt",
    truth: ["test", "entry_point", "prompt"],
    ...("task_id" in row && { id: "task_id" }),
  }),
  template: {
    user: "Complete this Python function. Answer with the whole function, with its imports, in one ```python block.\n\n```python\n{question}\n```",
  },
  domain: "code",
};

const mbpp: RowSchema = {
  columns: "text or prompt, test_list",
  fits: (row) => "test_list" in row && hasAny(row, ["text", "prompt"]),
  fields: (row) => ({
    question: "text" in row ? "text" : "prompt",
    truth: ["test_list", "test_setup_code", "test_imports", "challenge_test_list"],
    ...("task_id" in row && { id: "task_id" }),
  }),
  template: {
    user: "{question}\n\nAnswer with Python code in one ```python block. It must pass these tests:\n\n```python\n{test_list}\n```",
  },
  domain: "code",
};

/** Parquet files of these rows hold every possible argument, null where it is not meant; those are left out. */
const ifeval: RowSchema = {
  columns: "prompt, instruction_id_list, kwargs",
  fits: (row) => hasAll(row, ["prompt", "instruction_id_list", "kwargs"]),
  derive: (row) => ({
    ...row,
    kwargs: Array.isArray(row.kwargs) ? row.kwargs.map(withoutNulls) : (row.kwargs ?? null),
  }),
  fields: (row) => ({
    question: "prompt",
    truth: ["instruction_id_list", "kwargs"],
    ...("key" in row && { id: "key" }),
  }),
  template: {},
  domain: "instructions",
};

/** One right and three wrong answers, put in an order that the seed of the row decides. */
const gpqa: RowSchema = {
  columns: "Question, Correct Answer, Incorrect Answer 1, Incorrect Answer 2, Incorrect Answer 3",
  fits: (row) => hasAll(row, ["Question", "Correct Answer", ...wrongAnswers]),
  derive: deriveOptions,
  fields: (row) => ({ question: "Question", truth: "letter", ...("Record ID" in row && { id: "Record ID" }) }),
  template: {
    user: "{question}\n\n{options}\n\nPlease reason step by step, and put the letter of the right option within \\boxed{}.",
  },
  domain: "choice",
};

const gsm8k: RowSchema = {
  columns: "question, answer (a solution that ends in #### and a number)",
  fits: (row) => typeof row.question === "string" && numberAfterHashes(row.answer) !== null,
  derive: (row) => ({ ...row, final_answer: numberAfterHashes(row.answer) }),
  fields: () => ({ question: "question", truth: "final_answer" }),
  template: { user: boxed },
  domain: "math",
};

/** Where there is no `answer`, it is what the last \boxed{} of the solution holds. */
const math: RowSchema = {
  columns: "problem, answer or solution (with \\boxed{})",
  fits: (row) => "problem" in row && hasAny(row, ["answer", "solution"]),
  derive: (row) => ("answer" in row ? row : { ...row, answer: lastBoxed(row.solution) }),
  fields: (row) => ({ question: "problem", truth: "answer", ...("unique_id" in row && { id: "unique_id" }) }),
  template: { user: boxed },
  domain: "math",
};

const plain: RowSchema = {
  columns: "prompt, question or messages; truth, answer or none; domain, id and tools if you like",
  fits: (row) => hasAny(row, ["messages", "question", "prompt"]),
  fields: plainFields,
  template: {},
  domain: "general",
};

/** All schemas by name. */
export const rowSchemas = { verl, roll, humaneval, mbpp, ifeval, gpqa, gsm8k, math, plain } as const satisfies Record<
  string,
  RowSchema
>;

/** A name of `rowSchemas`. */
export type RowSchemaName = keyof typeof rowSchemas;

const wrongAnswers = ["Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"];

function rollReference(row: DataRow): JsonValue {
  const { case_type = null, test_case_function = null, test_cases = null } = row;
  return test_cases ? { case_type, test_case_function, test_cases } : (row.ground_truth ?? null);
}

function plainFields(row: DataRow): RowFields {
  const question = ["question", "prompt"].find((name) => name in row);
  const truth = ["truth", "answer"].find((name) => name in row);
  const same = ["messages", "id", "domain", "tools"].filter((name) => name in row).map((name) => [name, name]);
  return { ...Object.fromEntries(same), ...(question && { question }), ...(truth && { truth }) };
}

function deriveOptions(row: DataRow, seed: number): DataRow {
  const right = row["Correct Answer"]!;
  const answers = new Random(deriveSeed(seed, "options")).shuffled([right, ...wrongAnswers.map((name) => row[name]!)]);
  const options = answers.map((answer, i) => `${"ABCD"[i]}) ${String(answer).trim()}`);
  return { ...row, options, letter: "ABCD"[answers.indexOf(right)]! };
}

function numberAfterHashes(answer: JsonValue | undefined): string | null {
  const found = typeof answer === "string" ? /####\s*(\S.*?)\s*$/.exec(answer) : null;
  return found === null ? null : found[1]!.replaceAll(",", "");
}

function lastBoxed(solution: JsonValue | undefined): string | null {
  if (typeof solution !== "string") return null;
  const start = solution.lastIndexOf("\\boxed{");
  if (start < 0) return null;
  const from = start + "\\boxed{".length;
  let depth = 1;
  for (let i = from; i < solution.length; i++) {
    if (solution[i] === "\\") i++;
    else if (solution[i] === "{") depth++;
    else if (solution[i] === "}" && --depth === 0) return solution.slice(from, i);
  }
  return null;
}

function withoutNulls(value: JsonValue): JsonValue {
  return isDataRow(value) ? Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null)) : value;
}

function hasAll(row: DataRow, names: readonly string[]): boolean {
  return names.every((name) => name in row);
}

function hasAny(row: DataRow, names: readonly string[]): boolean {
  return names.some((name) => name in row);
}
