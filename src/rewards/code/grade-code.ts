/**
 * Runs a solution against its tests.
 *
 * In: the code, the tests, a sandbox. Out: one outcome per test, in order; with `stopsEarly` the first failed one is the last.
 * Whatever the code does is an outcome; what the sandbox throws passes through. Tests on standard input run one after the
 * other, each in a run of its own; checks and calls share one.
 */
import { randomBytes } from "node:crypto";
import type { JsonValue } from "../../flow/prompt.ts";
import type { Sandbox, SandboxResult } from "../../sandbox/sandbox.ts";
import { type CallTests, type CheckTests, type CodeTests, numTests, type StdinTests } from "./code-tests.ts";
import { isSameText, isSameValue } from "./compare-output.ts";
import type { Language } from "./extract-code.ts";
import { type HarnessJob, type ReportLine, readReport } from "./harness-job.ts";
import { javascriptHarness } from "./javascript-harness.ts";
import { pythonHarness } from "./python-harness.ts";

interface GradeOptions {
  readonly language: Language;
  readonly testTimeoutMs: number;
  /** Of all tests together. Waiting for the sandbox does not count. */
  readonly totalTimeoutMs: number;
  /** See compare-output.ts. */
  readonly tolerance: number;
  readonly stopsEarly: boolean;
}

/** `failure` says what went wrong; null when the test passed. */
interface TestOutcome {
  readonly test: string;
  readonly failure: string | null;
}

const SHOWN_CHARACTERS = 200;

export async function gradeCode(
  code: string,
  tests: CodeTests,
  sandbox: Sandbox,
  options: GradeOptions,
  signal: AbortSignal,
): Promise<TestOutcome[]> {
  if (tests.kind === "stdin") return gradeStdin(code, tests, sandbox, options, signal);
  return gradeHarness(code, tests, sandbox, options, signal);
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

async function gradeHarness(
  code: string,
  tests: CheckTests | CallTests,
  sandbox: Sandbox,
  options: GradeOptions,
  signal: AbortSignal,
): Promise<TestOutcome[]> {
  const secret = randomBytes(16).toString("hex");
  const job: HarnessJob = {
    secret,
    solution: tests.kind === "checks" ? `${tests.prefix}${code}\n` : code,
    setup: tests.kind === "checks" ? tests.setup : "",
    checks: tests.kind === "checks" ? tests.checks : [],
    functionName: tests.kind === "calls" ? tests.functionName : null,
    calls: tests.kind === "calls" ? tests.cases.map((one) => one.arguments) : [],
    testTimeoutMs: options.testTimeoutMs,
    stopsEarly: options.stopsEarly,
  };
  const program = options.language === "python" ? pythonHarness(job) : javascriptHarness(job);
  const wallMs = Math.min(options.totalTimeoutMs, options.testTimeoutMs * (numTests(tests) + 1));
  const result = await sandbox.run({ code: program, limits: { wallMs } }, signal);
  const lines = readReport(result.report, secret);
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

function failureOf(
  line: ReportLine | undefined,
  tests: CheckTests | CallTests,
  index: number,
  end: string,
  tolerance: number,
): string | null {
  if (line === undefined) return end;
  if (line.kind === "error" || line.kind === "broken") return line.error;
  if (tests.kind === "checks") return null;
  const expected = tests.cases[index]?.expected ?? null;
  const got: JsonValue = line.kind === "value" ? line.value : null;
  if (isSameValue(got, expected, tolerance)) return null;
  return `returned ${show(got)}, expected ${show(expected)}`;
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

function show(value: JsonValue): string {
  const text = JSON.stringify(value);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text;
}
