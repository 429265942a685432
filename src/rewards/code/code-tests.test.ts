import { expect, test } from "vitest";
import { readCodeTests } from "./code-tests.ts";

const checks = (...all: string[]) => ({
  tests: { kind: "checks", prefix: "", setup: "", checks: all, functionName: null },
});

test("a HumanEval row is one check, behind its prompt", () => {
  expect(readCodeTests({ prompt: "def f():\n", test: "def check(c): ...", entry_point: "f", task_id: "x" })).toEqual({
    tests: {
      kind: "checks",
      prefix: "def f():\n",
      setup: "def check(c): ...",
      checks: ["check(f)"],
      functionName: "f",
    },
  });
});

test("an MBPP row is one check per assertion, with its imports before them", () => {
  const row = {
    test_list: ["a", "b"],
    challenge_test_list: ["c"],
    test_imports: ["import math"],
    test_setup_code: "x",
  };
  expect(readCodeTests(row)).toEqual({
    tests: { kind: "checks", prefix: "", setup: "import math\nx", checks: ["a", "b", "c"], functionName: null },
  });
});

test("assertions come as verl and ROLL have them", () => {
  expect(readCodeTests({ assert_case: ["a", "b"] })).toEqual(checks("a", "b"));
  expect(readCodeTests([{ assert_code: "a" }, "b"])).toEqual(checks("a", "b"));
  expect(readCodeTests({ test_cases: '[{"assert_code": "a"}]', case_type: "assert" })).toEqual(checks("a"));
});

test("inputs and outputs come from every known form, lines joined", () => {
  const tests = { kind: "stdin", cases: [{ stdin: "1\n2", expected: "3" }] };
  expect(readCodeTests({ inputs: ["1\n2"], outputs: ["3"] })).toEqual({ tests });
  expect(readCodeTests({ inputs: [["1", "2"]], outputs: [["3"]], fn_name: null })).toEqual({ tests });
  expect(readCodeTests([{ stdin: "1\n2", expected_stdout: "3" }])).toEqual({ tests });
  expect(readCodeTests([{ input: "1\n2", output: "3", testtype: "stdin" }])).toEqual({ tests });
  expect(readCodeTests('{"inputs": ["1\\n2"], "outputs": ["3"], "language": "javascript"}')).toEqual({
    tests,
    language: "javascript",
  });
});

test("calls take arguments as lists or as lines of JSON", () => {
  const tests = { kind: "calls", functionName: "f", cases: [{ arguments: [1, "a"], expected: [2] }] };
  expect(readCodeTests({ fn_name: "f", inputs: [[1, "a"]], outputs: [[[2]]] })).toEqual({ tests });
  expect(readCodeTests({ fn_name: "f", inputs: ['1\n"a"'], outputs: ["[2]"] })).toEqual({ tests });
  expect(readCodeTests({ function: "f", cases: [{ arguments: [1, "a"], expected: [2] }] })).toEqual({ tests });
});

test("a name that is none is refused, because it becomes code", () => {
  expect(() => readCodeTests({ function: "f(), g", cases: [{ arguments: [], expected: 1 }] })).toThrow(
    /holds no tests/,
  );
});
