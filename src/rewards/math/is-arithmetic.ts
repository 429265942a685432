/** Whether the value of an expression is a fraction by its form alone, however large. */
import { evaluate, isExact } from "./evaluate.ts";
import type { Expression } from "./expression.ts";

const OPERATIONS = new Set("add mixed negate multiply multiple divide power factorial binomial percent".split(" "));

/** Numbers, joined by what makes fractions of fractions. A power with a broken exponent is a root and does not. */
export function isArithmetic(expression: Expression): boolean {
  if (expression.kind !== "apply") return expression.kind === "number";
  if (!OPERATIONS.has(expression.name) || !expression.args.every(isArithmetic)) return false;
  const exponent = expression.name === "power" ? evaluate(expression.args[1]!, new Map()) : null;
  return exponent === null || !isExact(exponent) || exponent.denominator === 1n;
}
