/** Expressions as trees, and what can be asked of one without computing it. */
import type { Rational } from "../../numbers/rational.ts";

export type Expression =
  | NumberExpression
  | { readonly kind: "variable"; readonly name: string }
  | { readonly kind: "constant"; readonly name: "pi" | "e" | "i" | "infinity" }
  | { readonly kind: "apply"; readonly name: string; readonly args: readonly Expression[] };

/** A written number. `decimals` counts the digits after the point; null for whole numbers and repeating decimals. */
interface NumberExpression {
  readonly kind: "number";
  readonly value: Rational;
  readonly decimals: number | null;
}

/** Functions of one argument that are written by name, as `\sin` or `sin`. */
export const FUNCTION_NAMES: ReadonlySet<string> = new Set(
  "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp".split(" "),
);

/** Applies an operator or function: `apply("add", a, b)`. */
export function apply(name: string, ...args: Expression[]): Expression {
  return { kind: "apply", name, args };
}

/** The value of a whole number in the tree. */
export function integer(value: bigint | number): NumberExpression {
  return { kind: "number", value: { numerator: BigInt(value), denominator: 1n }, decimals: null };
}

/** Whether any part of the tree fulfils the condition. */
export function someNode(expression: Expression, condition: (node: Expression) => boolean): boolean {
  if (condition(expression)) return true;
  return expression.kind === "apply" && expression.args.some((argument) => someNode(argument, condition));
}

/** The names of all variables, sorted. */
export function variablesOf(...expressions: readonly Expression[]): string[] {
  const names = new Set<string>();
  for (const expression of expressions)
    someNode(expression, (node) => node.kind === "variable" && names.add(node.name) === null);
  return [...names].sort();
}

/** Both values of an expression with a plus-minus sign, or the expression itself. All signs of one expression go together. */
export function expandSigns(expression: Expression): readonly Expression[] {
  if (!someNode(expression, isSign)) return [expression];
  return [chooseSign(expression, true), chooseSign(expression, false)];
}

function isSign(node: Expression): boolean {
  return node.kind === "apply" && (node.name === "plusMinus" || node.name === "minusPlus");
}

function chooseSign(expression: Expression, isUpper: boolean): Expression {
  if (expression.kind !== "apply") return expression;
  const args = expression.args.map((argument) => chooseSign(argument, isUpper));
  if (!isSign(expression)) return { ...expression, args };
  const isPlus = (expression.name === "plusMinus") === isUpper;
  return apply("add", args[0]!, isPlus ? args[1]! : apply("negate", args[1]!));
}
