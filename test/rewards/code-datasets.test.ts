/**
 * The code reward on HumanEval and MBPP: the reference solutions pass their tests, and changed ones do not. The data sets are
 * not part of the project; they are looked for beside it. All rows are scored by `npm run bench -- code-reward`.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { codeReward } from "../../src/rewards/code/code-reward.ts";
import type { Reward } from "../../src/rewards/reward.ts";
import { skipReason } from "../sandbox/python-availability.ts";

interface Task {
  readonly id: string;
  readonly truth: Record<string, string | string[]>;
  readonly solution: string;
  readonly functionName: string;
}

const folder = fileURLToPath(new URL("../../../shared/data/code/", import.meta.url));
const reason = skipReason ?? (existsSync(folder) ? null : `no data sets at ${folder}`);
const note = reason === null ? "" : ` (skipped: ${reason})`;

/**
 * Changes after which a solution cannot pass, whatever it computes: the function gives a value that differs from the right one
 * in every type, gives none, is missing, raises, or ends the process before the tests.
 */
const mutations: Readonly<Record<string, (task: Task) => string>> = {
  "gives another value": ({ solution, functionName }) => `${solution}
def _other(value):
    if isinstance(value, bool) or value is None: return not value
    if isinstance(value, (int, float, complex)): return value + 1
    if isinstance(value, str): return value + "x"
    if isinstance(value, (list, tuple)): return value + type(value)([None])
    if isinstance(value, set): return value | {"x"}
    if isinstance(value, dict): return {**value, "x": "x"}
    return object()
_right = ${functionName}
def ${functionName}(*arguments): return _other(_right(*arguments))
`,
  "gives an object equal to nothing": ({ solution, functionName }) => `${solution}
class _Nothing:
    def __eq__(self, other): return False
    def __bool__(self): return False
    __hash__ = None
def ${functionName}(*arguments): return _Nothing()
`,
  "has no such function": ({ solution, functionName }) => `${solution}\ndel ${functionName}\n`,
  raises: ({ solution, functionName }) => `${solution}\ndef ${functionName}(*arguments): raise KeyError(1)\n`,
  "does not parse": ({ solution }) => `${solution}\ndef (\n`,
  "ends the process": ({ solution }) => `${solution}\nimport os\nos._exit(0)\n`,
  "ends the process when called": ({ solution, functionName }) =>
    `${solution}\nimport os\ndef ${functionName}(*arguments): os._exit(0)\n`,
  "ends with sys.exit": ({ solution }) => `${solution}\nimport sys\nsys.exit(0)\n`,
};

describe.skipIf(reason !== null)(`code reward on data sets${note}`, () => {
  let reward: Reward;
  beforeAll(async () => {
    // Generous: the references are not written for speed, and the machine may be busy.
    reward = await codeReward.build(codeReward.options.parse({ testTimeoutMs: 30_000, totalTimeoutMs: 120_000 }));
  });
  afterAll(() => reward.close?.());

  test("the reference solutions of HumanEval all score 1", async () => {
    expect(await failuresOf(humanEval())).toEqual([]);
  });

  test("every fifth reference solution of MBPP scores 1", async () => {
    expect(await failuresOf(everyNth(mbpp(), 5))).toEqual([]);
  });

  test.each(Object.keys(mutations))("no solution of HumanEval or MBPP that %s scores above 0", async (name) => {
    const mutate = mutations[name]!;
    const tasks = [...everyNth(humanEval(), 4), ...everyNth(mbpp(), 25)];
    const changed = tasks.map((task) => ({ ...task, solution: mutate(task) }));
    expect(changed.length).toBe(41 + 39);
    const failed = await failuresOf(changed);
    expect(tasks.map(({ id }) => id).filter((id) => !failed.includes(id))).toEqual([]);
  });

  async function failuresOf(tasks: readonly Task[]): Promise<string[]> {
    const scores = await Promise.all(tasks.map((task) => score(task)));
    return tasks.filter((_, index) => scores[index] !== 1).map(({ id }) => id);
  }

  async function score({ id, truth, solution }: Task): Promise<number> {
    const prompt = { id, domain: "code", seed: 0, messages: [], truth, extra: {} };
    const input = { prompt, reply: solution, messages: [], numReplyTokens: 1, isTruncated: false };
    const { value } = await reward.score(input, new AbortController().signal);
    return value;
  }
});

function humanEval(): Task[] {
  return readRows("HumanEval.jsonl").map((row) => ({
    id: `${row.task_id}`,
    truth: row,
    solution: `${row.canonical_solution}`,
    functionName: `${row.entry_point}`,
  }));
}

/** The function that is tested is the last one defined that the first test calls. */
function mbpp(): Task[] {
  return readRows("mbpp.jsonl").map((row) => {
    const solution = `${row.code}`;
    const defined = [...solution.matchAll(/^\s*(?:def|class) (\w+)/gm)].map(([, name]) => `${name}`);
    const functionName = defined.findLast((name) => new RegExp(`\\b${name}\\(`).test(`${row.test_list?.[0]}`)) ?? "";
    return { id: `mbpp/${row.task_id}`, truth: row, solution, functionName };
  });
}

function readRows(file: string): Record<string, string | string[]>[] {
  return readFileSync(`${folder}${file}`, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

function everyNth<Value>(values: readonly Value[], n: number): Value[] {
  return values.filter((_, index) => index % n === 0);
}
