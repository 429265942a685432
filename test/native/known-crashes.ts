/**
 * Operators that libtorch itself crashes in for some arguments, by its version and with what ends the process.
 *
 * The file comes from fuzz-all.ts. Private operators, raw backward formulas and out variants make up most of it: they
 * trust their callers inside libtorch. Nothing in src uses a listed operator with arguments that were not checked.
 */
import { readFileSync } from "node:fs";

/** Names of operators to the signal that a call of theirs ended with. */
export function knownCrashes(torchVersion: string): Readonly<Record<string, string>> {
  const file = new URL("known-libtorch-crashes.json", import.meta.url);
  const byVersion: Record<string, Record<string, string>> = JSON.parse(readFileSync(file, "utf8"));
  return byVersion[torchVersion.split(".").slice(0, 2).join(".")] ?? {};
}
