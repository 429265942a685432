/** What an examiner is given, and what it reports: one line per test, in order, or one that says why no test could run. */
import { type ExactValue, parseExact } from "./exact-json.ts";

/** The solution itself is no part of this: it runs elsewhere. Neither are expected results of calls: they are compared outside. */
export type ExaminerJob = {
  readonly kind: "checks" | "calls";
  /** The head of the task, which the solution completes. What it defines besides counts as part of the tests. */
  readonly prefix: string;
  /** Runs before the checks. */
  readonly setup: string;
  /** Code that throws when the solution is wrong. */
  readonly checks: readonly string[];
  /** The function that is the solution's whatever else is defined, if the task names one. */
  readonly functionName: string | null;
  /** The arguments of each call. */
  readonly calls: readonly (readonly ExactValue[])[];
  readonly testTimeoutMs: number;
  /** Whether the first failed test is the last one to run. */
  readonly stopsEarly: boolean;
};

/** `broken`: the solution or the tests could not be loaded. `ended`: the solution is no longer there. */
export type ReportLine =
  | { readonly kind: "passed" }
  | { readonly kind: "value"; readonly value: ExactValue }
  | { readonly kind: "error" | "broken"; readonly error: string }
  | { readonly kind: "ended" };

/** The lines that the examiner finished; one that a limit cut off is left out. */
export function readReport(report: string): ReportLine[] {
  // Only the examiner writes here, so lines have the form it gives them.
  return report
    .split("\n")
    .slice(0, -1)
    .map((line) => parseExact(line) as ReportLine);
}
