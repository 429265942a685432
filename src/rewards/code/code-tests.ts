/**
 * Reads the tests of a task from `prompt.truth`.
 *
 * In: rows as the known data sets have them, as objects or as JSON in a string. Out: one of three kinds of tests. What is not
 * understood throws, because a task without tests has no score.
 *
 * HumanEval: { prompt, test, entry_point }. MBPP: { test_list, test_setup_code?, test_imports?, challenge_test_list? }.
 * APPS, TACO and verl: { inputs, outputs, fn_name? }, { assert_case }. ROLL: a list, or { test_cases }, of { stdin, expected_stdout } or
 * { assert_code } or texts. LiveCodeBench: a list of { input, output, testtype: "stdin" }. Ours: { function, cases: [{ arguments,
 * expected }] }. Any of the objects may name its `language`.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import { type ExactValue, parseExact } from "./exact-json.ts";
import { type Language, languages } from "./extract-code.ts";

export type CodeTests = CheckTests | StdinTests | CallTests;

/** Code that throws when the solution is wrong. Names that nothing else defines are the solution's. */
export interface CheckTests {
  readonly kind: "checks";
  /** The text that the solution continues. */
  readonly prefix: string;
  /** Code that runs before the checks. */
  readonly setup: string;
  readonly checks: readonly string[];
  /** The function under test, where the row names it. */
  readonly functionName: string | null;
}

/** The solution is a program that reads and prints. */
export interface StdinTests {
  readonly kind: "stdin";
  readonly cases: readonly { readonly stdin: string; readonly expected: string }[];
}

/** The solution defines a function, or a class `Solution` with it as a method. Values pass as JSON with exact integers. */
export interface CallTests {
  readonly kind: "calls";
  readonly functionName: string;
  readonly cases: readonly { readonly arguments: readonly ExactValue[]; readonly expected: ExactValue }[];
}

/** Rows are JSON already; text in them may have been read with exact integers. */
const json = z.custom<ExactValue>((value) => value !== undefined);
const text = z.string();
const texts = z.array(text);
const identifier = text.regex(/^[\p{L}_$][\p{L}\p{N}_$]*$/u);
/** Some rows hold one text, some the lines of it. */
const textOrLines = z.union([text, texts.transform((lines) => lines.join("\n"))]);

const humanEval = z.object({ prompt: text.default(""), test: text, entry_point: identifier }).transform(
  ({ prompt, test, entry_point }): CheckTests => ({
    kind: "checks",
    prefix: prompt,
    setup: test,
    checks: [`check(${entry_point})`],
    functionName: entry_point,
  }),
);

const mbpp = z
  .object({
    test_list: texts,
    test_setup_code: text.default(""),
    test_imports: texts.default([]),
    challenge_test_list: texts.default([]),
  })
  .transform(
    (row): CheckTests => ({
      kind: "checks",
      prefix: "",
      setup: [...row.test_imports, row.test_setup_code].join("\n"),
      checks: [...row.test_list, ...row.challenge_test_list],
      functionName: null,
    }),
  );

const verlAsserts = z.object({ assert_case: texts }).transform(({ assert_case }) => plainChecks(assert_case));

const rollAsserts = z
  .array(z.union([text, z.object({ assert_code: text }).transform(({ assert_code }) => assert_code)]))
  .transform(plainChecks);

const rollStdin = z.array(z.object({ stdin: textOrLines, expected_stdout: textOrLines })).transform(
  (rows): StdinTests => ({
    kind: "stdin",
    cases: rows.map(({ stdin, expected_stdout }) => ({ stdin, expected: expected_stdout })),
  }),
);

const inputOutputStdin = z
  .array(z.object({ input: textOrLines, output: textOrLines, testtype: z.literal("stdin").optional() }))
  .transform(
    (rows): StdinTests => ({
      kind: "stdin",
      cases: rows.map(({ input, output }) => ({ stdin: input, expected: output })),
    }),
  );

const appsStdin = z
  .object({ inputs: z.array(textOrLines), outputs: z.array(textOrLines), fn_name: z.null().optional() })
  .refine(({ inputs, outputs }) => inputs.length === outputs.length, "inputs and outputs must be of the same length")
  .transform(
    ({ inputs, outputs }): StdinTests => ({
      kind: "stdin",
      cases: inputs.map((stdin, index) => ({ stdin, expected: outputs[index] ?? "" })),
    }),
  );

/** Arguments as a list, or, as LiveCodeBench has them, as lines of JSON. APPS wraps what is expected in a list of one. */
const appsCalls = z
  .object({ inputs: z.array(z.union([text, z.array(json)])), outputs: z.array(json), fn_name: identifier })
  .refine(({ inputs, outputs }) => inputs.length === outputs.length, "inputs and outputs must be of the same length")
  .transform(
    ({ inputs, outputs, fn_name }): CallTests => ({
      kind: "calls",
      functionName: fn_name,
      cases: inputs.map((input, index) => ({
        arguments: typeof input === "string" ? input.split("\n").map(parseJson) : input,
        expected: typeof input === "string" ? parseExpected(outputs[index]) : unwrap(outputs[index]),
      })),
    }),
  );

const calls = z
  .object({
    function: identifier,
    cases: z.array(z.object({ arguments: z.array(json), expected: json })),
  })
  .transform((row): CallTests => ({ kind: "calls", functionName: row.function, cases: row.cases }));

const anyTests = z.union([
  humanEval,
  mbpp,
  verlAsserts,
  appsStdin,
  appsCalls,
  calls,
  rollStdin,
  inputOutputStdin,
  rollAsserts,
]);

/** The tests, and the language that the truth names. */
export function readCodeTests(truth: JsonValue): { readonly tests: CodeTests; readonly language?: Language } {
  const row = typeof truth === "string" ? parseJson(truth) : truth;
  const named = z.object({ language: z.enum(languages) }).safeParse(row);
  const wrapped = z.object({ test_cases: z.union([text.transform(parseJson), json]) }).safeParse(row);
  const parsed = anyTests.safeParse(wrapped.success ? wrapped.data.test_cases : row);
  if (!parsed.success || numTests(parsed.data) === 0) {
    throw new RerollError(
      "INVALID_TRUTH",
      `prompt.truth holds no tests that the code reward knows: got ${JSON.stringify(truth).slice(0, 200)}. Known are rows of HumanEval, MBPP, APPS, verl, ROLL and LiveCodeBench, and { function, cases }.`,
    );
  }
  return { tests: parsed.data, ...(named.success ? named.data : {}) };
}

/** How many tests there are. */
export function numTests(tests: CodeTests): number {
  return tests.kind === "checks" ? tests.checks.length : tests.cases.length;
}

function plainChecks(checks: readonly string[]): CheckTests {
  return { kind: "checks", prefix: "", setup: "", checks, functionName: null };
}

function parseJson(value: string): ExactValue {
  try {
    return parseExact(value);
  } catch {
    return value;
  }
}

function parseExpected(output: ExactValue | undefined): ExactValue {
  return typeof output === "string" ? parseJson(output) : (output ?? null);
}

function unwrap(output: ExactValue | undefined): ExactValue {
  return Array.isArray(output) && output.length === 1 ? (output[0] ?? null) : (output ?? null);
}
