/**
 * The beginning of a program that a task gives, and what a reply adds to it.
 *
 * A prefix such as HumanEval's ends inside a function. The reply is the rest of that function or the whole of it; where it is the
 * whole and the prefix has nothing but a signature, that function gets an empty body, so that both parse.
 */
import type { CheckTests } from "./code-tests.ts";
import type { Language } from "./extract-code.ts";

export function joinPrefix({ prefix, functionName }: CheckTests, code: string, language: Language): string {
  const isEmptied = language === "python" && endsInSignature(prefix) && definesFunction(code, functionName);
  return `${prefix}${isEmptied ? "    pass\n" : ""}${code}\n`;
}

/** Whether the last line that is no comment opens a block. */
function endsInSignature(prefix: string): boolean {
  const last = prefix.split("\n").findLast((line) => !/^\s*(?:#|$)/.test(line));
  return last !== undefined && prefix.endsWith("\n") && last.trimEnd().endsWith(":");
}

/** Whether one of the lines begins the definition of this function. */
function definesFunction(code: string, name: string | null): boolean {
  if (name === null) return false;
  return code.split("\n").some((line) => new RegExp(`^(?:async )?def ${name}\\b`).test(line));
}
