/**
 * Guards against reading matrices as numbers: P A P^{-1} is not A.
 *
 * Capital letters may be matrices, whose products do not commute. Two expressions with products of them that agree as numbers
 * are trusted only where the capitals also come in the same order.
 */
import type { Expression } from "./expression.ts";

/** Whether either list multiplies different capitals and the two mention them in different orders. */
export function hasOtherMatrixOrder(left: readonly Expression[], right: readonly Expression[]): boolean {
  const isProduct = [...left, ...right].some(multipliesCapitals);
  return isProduct && left.flatMap(capitalsOf).join() !== right.flatMap(capitalsOf).join();
}

function capitalsOf(expression: Expression): readonly string[] {
  if (expression.kind === "variable") return /^[A-Z](?:_|$)/.test(expression.name) ? [expression.name] : [];
  return expression.kind === "apply" ? expression.args.flatMap(capitalsOf) : [];
}

function multipliesCapitals(expression: Expression): boolean {
  if (expression.kind !== "apply") return false;
  const factors = expression.args.map(capitalsOf);
  const isProduct =
    (expression.name === "multiply" || expression.name === "divide") && factors.every(({ length }) => length > 0);
  const isPower = expression.name === "power";
  return ((isProduct || isPower) && new Set(factors.flat()).size > 1) || expression.args.some(multipliesCapitals);
}
