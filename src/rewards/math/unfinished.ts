/** Tells an answer that leaves the work undone from a finished one: `17 \cdot 23` where the truth is 391. */
import type { Answer } from "./answer.ts";
import type { Expression } from "./expression.ts";
import { parseAnswer } from "./parse-answer.ts";

/**
 * Whether the truth is one written number and the candidate a sum or product of numbers. Fractions, mixed numbers, powers,
 * roots, factorials and scientific notation are finished.
 */
export function isUnfinished(truth: string, candidate: string): boolean {
  const expected = finalValue(parseAnswer(truth));
  const given = finalValue(parseAnswer(candidate));
  return expected !== null && given !== null && isWrittenNumber(expected) && hasArithmetic(given);
}

function finalValue(answer: Answer): Expression | null {
  if (answer.kind === "relation") return finalValue(answer.sides.at(-1)!);
  return answer.kind === "value" ? answer.expression : null;
}

function isWrittenNumber(expression: Expression): boolean {
  if (expression.kind === "number") return true;
  if (expression.kind !== "apply" || !["negate", "divide", "mixed"].includes(expression.name)) return false;
  return expression.args.every(isWrittenNumber);
}

function hasArithmetic(expression: Expression): boolean {
  if (expression.kind !== "apply") return false;
  if (expression.name === "add") return true;
  if (expression.name === "multiply" && !isPowerOfTen(expression.args[1]!)) return true;
  return expression.args.some(hasArithmetic);
}

function isPowerOfTen(expression: Expression): boolean {
  const base = expression.kind === "apply" && expression.name === "power" ? expression.args[0]! : expression;
  return base.kind === "number" && /^10+$/.test(base.value.numerator.toString()) && base.value.denominator === 1n;
}
