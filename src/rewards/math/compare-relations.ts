/**
 * Decides whether two equations or inequalities say the same, up to the order of their sides and a constant factor.
 *
 * With every relation written as D op 0, they agree when D1 = k D2 for a constant k: positive for the same inequality, negative
 * for the flipped one, any for equations.
 */
import type { RelationAnswer, RelationOperator } from "./answer.ts";
import { compareExpressions, drawPoint, type RoundingRule, type Verdict } from "./compare-expressions.ts";
import { approximate, evaluate, type Point } from "./evaluate.ts";
import { apply, type Expression, variablesOf } from "./expression.ts";

/** Unknown for chains of relations, for sides that are no expressions, and for relations between constants. */
export function compareRelations(left: RelationAnswer, right: RelationAnswer, rule: RoundingRule): Verdict {
  const [a, b] = [difference(left), difference(right)];
  if (a === null || b === null || variablesOf(a).length === 0 || variablesOf(b).length === 0) return "unknown";
  const point = drawPoint(variablesOf(a, b), "positive", 100);
  const [valueA, valueB] = [approximate(evaluate(a, point)), approximate(evaluate(b, point))];
  if (Number.isNaN(valueA.re) || Number.isNaN(valueB.re) || valueA.re === 0 || valueB.re === 0) return "unknown";
  const isSameDirection = valueA.re > 0 === valueB.re > 0;
  const operator = isSameDirection ? right.operators[0]! : MIRRORED[right.operators[0]!];
  if (left.operators[0] !== operator) return "different";
  return compareExpressions(apply("multiply", a, at(b, point)), apply("multiply", b, at(a, point)), rule);
}

const MIRRORED: Readonly<Record<RelationOperator, RelationOperator>> = {
  "<": ">",
  ">": "<",
  leq: "geq",
  geq: "leq",
  "=": "=",
  neq: "neq",
  in: "in",
};

function difference({ operators, sides }: RelationAnswer): Expression | null {
  if (operators.length !== 1 || operators[0] === "in") return null;
  const [left, right] = sides.map((side) =>
    side.kind === "value"
      ? side.expression
      : side.kind === "choice"
        ? ({ kind: "variable", name: side.letter } as const)
        : null,
  );
  return left == null || right == null ? null : apply("add", left, apply("negate", right));
}

function at(expression: Expression, point: Point): Expression {
  if (expression.kind === "apply")
    return { ...expression, args: expression.args.map((argument) => at(argument, point)) };
  const value = expression.kind === "variable" ? point.get(expression.name) : undefined;
  return value === undefined ? expression : { kind: "number", value, decimals: null };
}
