/**
 * Runs a solution against its tests.
 *
 * In: the code, the tests, a sandbox. Out: one outcome per test, in order; with `stopsEarly` the first failed one is the last.
 * Whatever the code does is an outcome; what the sandbox throws passes through. Tests on standard input run one after the
 * other, each in a run of its own; checks and calls share one, in which an examiner apart from the solution decides.
 */
import type { Examiner, Sandbox, SandboxResult } from "../../sandbox/sandbox.ts";
import { type CallTests, type CheckTests, type CodeTests, numTests, type StdinTests } from "./code-tests.ts";
import { isSameText, isSameValue } from "./compare-output.ts";
import { type ExactValue, stringifyExact } from "./exact-json.ts";
import { type ExaminerJob, type ReportLine, readReport } from "./examiner-job.ts";
import type { Language } from "./extract-code.ts";
import { javascriptExaminer } from "./javascript-examiner.ts";
import { javascriptServiceSource } from "./javascript-service.ts";
import { joinPrefix } from "./join-prefix.ts";
import { pythonExaminer, pythonExaminerSource } from "./python-examiner.ts";
import { pythonServiceSource, pythonServiceStart } from "./python-service.ts";
import { pythonWireSource } from "./python-wire.ts";

interface GradeOptions {
  readonly language: Language;
  readonly testTimeoutMs: number;
  /** Time of all tests together. Waiting for the sandbox does not count. */
  readonly totalTimeoutMs: number;
  /** How far numbers with a fraction may be off: see compare-output.ts. */
  readonly tolerance: number;
  readonly stopsEarly: boolean;
}

/** `failure` says what went wrong; null when the test passed. */
interface TestOutcome {
  readonly test: string;
  readonly failure: string | null;
}

const SHOWN_CHARACTERS = 200;

/** Modules that a Python sandbox needs for `gradeCode`. */
export const pythonModules: Readonly<Record<string, string>> = {
  reroll_wire: pythonWireSource,
  reroll_service: pythonServiceSource,
  reroll_examiner: pythonExaminerSource,
};

export async function gradeCode(
  code: string,
  tests: CodeTests,
  sandbox: Sandbox,
  options: GradeOptions,
  signal: AbortSignal,
): Promise<TestOutcome[]> {
  if (tests.kind === "stdin") return gradeStdin(code, tests, sandbox, options, signal);
  return gradeExamined(code, tests, sandbox, options, signal);
}

async function gradeStdin(
  code: string,
  { cases }: StdinTests,
  sandbox: Sandbox,
  { testTimeoutMs, totalTimeoutMs, tolerance, stopsEarly }: GradeOptions,
  signal: AbortSignal,
): Promise<TestOutcome[]> {
  const outcomes: TestOutcome[] = [];
  let leftMs = totalTimeoutMs;
  for (const { stdin, expected } of cases) {
    const wallMs = Math.min(testTimeoutMs, Math.max(1, leftMs));
    const result = await sandbox.run({ code, stdin, limits: { wallMs } }, signal);
    leftMs -= result.wallMs;
    const isRight = result.kind === "ok" && isSameText(result.output, expected, tolerance);
    const wrong = result.kind === "ok" ? `printed ${show(result.output)}, expected ${show(expected)}` : null;
    const failure = isRight ? null : (wrong ?? describeEnd(result, wallMs));
    outcomes.push({ test: `input ${show(stdin)}`, failure });
    if (failure !== null && stopsEarly) break;
  }
  return outcomes;
}

async function gradeExamined(
  code: string,
  tests: CheckTests | CallTests,
  sandbox: Sandbox,
  options: GradeOptions,
  signal: AbortSignal,
): Promise<TestOutcome[]> {
  const wallMs = Math.min(options.totalTimeoutMs, options.testTimeoutMs * (numTests(tests) + 1));
  const program = {
    code: tests.kind === "checks" ? joinPrefix(tests, code, options.language) : code,
    examiner: examinerOf(tests, options),
    limits: { wallMs },
  };
  const result = await sandbox.run(program, signal);
  const lines = readReport(result.report);
  const end = result.kind === "ok" ? "ended before this test did" : describeEnd(result, wallMs);
  const outcomes = Array.from(
    { length: numTests(tests) },
    (_, index): TestOutcome => ({
      test: describeTest(tests, index),
      failure:
        lines[0]?.kind === "broken" ? lines[0].error : failureOf(lines[index], tests, index, end, options.tolerance),
    }),
  );
  const firstFailure = outcomes.findIndex(({ failure }) => failure !== null);
  return options.stopsEarly && firstFailure >= 0 ? outcomes.slice(0, firstFailure + 1) : outcomes;
}

function examinerOf(tests: CheckTests | CallTests, { language, testTimeoutMs, stopsEarly }: GradeOptions): Examiner {
  const job: ExaminerJob = {
    kind: tests.kind,
    prefix: tests.kind === "checks" ? tests.prefix : "",
    setup: tests.kind === "checks" ? tests.setup : "",
    checks: tests.kind === "checks" ? tests.checks : [],
    functionName: tests.functionName,
    calls: tests.kind === "calls" ? tests.cases.map((one) => one.arguments) : [],
    testTimeoutMs,
    stopsEarly,
  };
  switch (language) {
    case "python":
      return { service: pythonServiceStart, code: pythonExaminer(job) };
    case "javascript":
      return { service: javascriptServiceSource, code: javascriptExaminer(job) };
  }
}

function failureOf(
  line: ReportLine | undefined,
  tests: CheckTests | CallTests,
  index: number,
  end: string,
  tolerance: number,
): string | null {
  switch (line?.kind) {
    case undefined:
      return end;
    case "error":
    case "broken":
      return line.error;
    case "ended":
      return "the solution ended before this test did";
    case "passed":
      return null;
    case "value": {
      const expected = tests.kind === "calls" ? (tests.cases[index]?.expected ?? null) : null;
      if (isSameValue(line.value, expected, tolerance)) return null;
      return `returned ${show(line.value)}, expected ${show(expected)}`;
    }
  }
}

function describeTest(tests: CheckTests | CallTests, index: number): string {
  if (tests.kind === "checks") return (tests.checks[index] ?? "").trim();
  return `${tests.functionName}(${(tests.cases[index]?.arguments ?? []).map(show).join(", ")})`;
}

function describeEnd(result: SandboxResult, wallMs: number): string {
  switch (result.kind) {
    case "ok":
      return "ended";
    case "failed":
      return lastUnindentedLine(result.error);
    case "killed":
      return result.error;
    case "timeout":
      return `ran longer than ${wallMs} ms`;
    case "memory":
      return "ran out of memory";
    case "output-limit":
      return "printed too much";
  }
}

/** The error itself: the lines of its trace are indented. Python puts it last, JavaScript first. */
function lastUnindentedLine(error: string): string {
  return error.split("\n").findLast((line) => /^\S/.test(line)) ?? "failed";
}

function show(value: ExactValue): string {
  const text = stringifyExact(value);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text;
}
