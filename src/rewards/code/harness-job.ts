/** What a harness is given, and what it reports: one entry per test, in order, and an end. */
import { z } from "zod";
import type { JsonValue } from "../../flow/prompt.ts";

export interface HarnessJob {
  /** Starts every line of the report. */
  readonly secret: string;
  readonly solution: string;
  /** Runs after the solution. */
  readonly setup: string;
  /** Code that throws when the solution is wrong; or else the arguments of calls. */
  readonly checks: readonly string[];
  readonly functionName: string | null;
  readonly calls: readonly (readonly JsonValue[])[];
  readonly testTimeoutMs: number;
  /** Whether the first failed check is the last one. */
  readonly stopsEarly: boolean;
}

const reportLine = z.union([
  z.object({ kind: z.literal("passed") }),
  z.object({ kind: z.literal("value"), value: z.json() }),
  z.object({ kind: z.literal("error"), error: z.string() }),
  /** The solution itself could not be loaded. */
  z.object({ kind: z.literal("broken"), error: z.string() }),
]);

export type ReportLine = z.infer<typeof reportLine>;

/** The lines that the harness wrote. */
export function readReport(report: string, secret: string): ReportLine[] {
  return report
    .split("\n")
    .filter((line) => line.startsWith(secret))
    .map((line) => reportLine.parse(JSON.parse(line.slice(secret.length))));
}
