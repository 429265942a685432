/**
 * Brings two answers into one form where they say the same in different ones, as far as that takes no arithmetic.
 */
import type { Answer, RelationAnswer, RelationOperator, TupleAnswer, ValueAnswer } from "./answer.ts";
import { apply, type Expression, variablesOf } from "./expression.ts";

/** A list or a set. */
export function isCollection(answer: Answer): answer is Extract<Answer, { kind: "list" | "set" }> {
  return answer.kind === "list" || answer.kind === "set";
}

/** Brings two answers that say the same in different forms into one: `x = 5` and `5`, `x > 2` and `(2, \infty)`, a vector and a point. */
export function alignForms(truth: Answer, candidate: Answer): readonly [Answer, Answer] {
  let [left, right] = [withoutNames(truth), withoutNames(candidate)];
  if (left.kind === "relation" && right.kind !== "relation") left = asValue(left) ?? asInterval(left) ?? left;
  if (right.kind === "relation" && left.kind !== "relation") right = asValue(right) ?? asInterval(right) ?? right;
  if (left.kind === "union") right = asUnion(right);
  if (right.kind === "union") left = asUnion(left);
  if (left.kind === "tuple" && right.kind === "matrix") right = asTuple(right.rows) ?? right;
  if (right.kind === "tuple" && left.kind === "matrix") left = asTuple(left.rows) ?? left;
  if (isCollection(left) && left.items.length === 1 && !isCollection(right)) left = left.items[0]!;
  if (isCollection(right) && right.items.length === 1 && !isCollection(left)) right = right.items[0]!;
  if (left.kind === "choice" && right.kind === "value") left = asVariable(left.letter);
  if (right.kind === "choice" && left.kind === "value") right = asVariable(right.letter);
  return [left, right];
}

/** `x = 1 or x = 2` is the list 1, 2. */
function withoutNames(answer: Answer): Answer {
  if (answer.kind !== "list") return answer;
  const names = answer.items.map((item) => (item.kind === "relation" ? assignedName(item) : null));
  const isOneName =
    names[0] != null && names.every((name, i) => name === names[0] || (i > 0 && answer.items[i]!.kind === "value"));
  if (!isOneName) return answer;
  return {
    kind: "list",
    items: answer.items.flatMap((item) => flatten(item.kind === "relation" ? item.sides[1]! : item)),
  };
}

function flatten(answer: Answer): readonly Answer[] {
  return answer.kind === "list" ? answer.items : [answer];
}

/** The right side of `x = 5`, `f(x) = ...`, `(a, b) = (1, 2)` and `x \in [0, 1]`. */
function asValue(relation: RelationAnswer): Answer | null {
  return assignedName(relation) === null ? null : relation.sides[1]!;
}

/** The name that a relation gives a value to, where the value does not use that name itself. */
export function assignedName({ operators: [operator, another], sides: [left, right] }: RelationAnswer): string | null {
  if (another !== undefined || (operator !== "=" && operator !== "in") || left === undefined || right === undefined)
    return null;
  const names = namesOf(left);
  const own = left.kind === "value" && left.expression.kind === "variable" ? left.expression.name : null;
  const isFree = right.kind !== "value" || !variablesOf(right.expression).some((name) => name === own);
  return names !== null && isFree ? names.join(",") : null;
}

/** The name of a variable, of a function of variables, or the names of a point. */
function namesOf(answer: Answer): readonly string[] | null {
  if (answer.kind === "choice") return [answer.letter];
  if (answer.kind === "value") return isName(answer.expression) && answer.unit === null ? [answer.latex] : null;
  if (answer.kind !== "tuple" || answer.open !== "(" || answer.close !== ")") return null;
  const names = answer.items.map(namesOf);
  return names.every((name) => name !== null) ? names.flat() : null;
}

function isName(expression: Expression): boolean {
  if (expression.kind === "variable") return true;
  return (
    expression.kind === "apply" &&
    expression.name.startsWith("call ") &&
    expression.args.every(({ kind }) => kind === "variable")
  );
}

function asVariable(name: string): ValueAnswer {
  return {
    kind: "value",
    expression: { kind: "variable", name },
    latex: name,
    unit: null,
    label: null,
    isPercent: false,
  };
}

function asTuple(rows: readonly (readonly ValueAnswer[])[]): TupleAnswer | null {
  const isVector = rows.length === 1 || rows[0]!.length === 1;
  return isVector ? { kind: "tuple", open: "(", close: ")", items: rows.flat() } : null;
}

/** `x < 1 or x > 2` as a union of intervals; `x \neq 1` as the two sides of 1. */
function asUnion(answer: Answer): Answer {
  if (answer.kind === "relation") return asInterval(answer) ?? answer;
  if (answer.kind !== "list") return answer;
  const parts = answer.items.map((item) => (item.kind === "relation" ? asInterval(item) : null));
  return parts.every((part) => part !== null) ? { kind: "union", parts } : answer;
}

const FLIPPED: Readonly<Partial<Record<RelationOperator, RelationOperator>>> = {
  "<": ">",
  ">": "<",
  leq: "geq",
  geq: "leq",
};

/** The interval of a variable between constants; null for other relations. */
function asInterval({ operators, sides }: RelationAnswer): Answer | null {
  const position = sides.findIndex((side) => namesOf(side)?.length === 1);
  const others = sides.filter((_, i) => i !== position);
  if (position === -1 || sides.length > 3 || (sides.length === 3 && position !== 1) || !others.every(isConstant))
    return null;
  const bounds = others.map((bound, i) => ({
    bound,
    operator: position === 0 ? operators[i]! : i === 0 ? (FLIPPED[operators[0]!] ?? operators[0]!) : operators[1]!,
  }));
  if (bounds[0]!.operator === "neq" && bounds.length === 1) {
    const [point] = others;
    return { kind: "union", parts: [tuple("(", MINUS_INFINITY, point!, ")"), tuple("(", point!, INFINITY, ")")] };
  }
  const lower = bounds.find(({ operator }) => operator === ">" || operator === "geq");
  const upper = bounds.find(({ operator }) => operator === "<" || operator === "leq");
  if (Number(lower !== undefined) + Number(upper !== undefined) !== bounds.length) return null;
  return tuple(
    lower?.operator === "geq" ? "[" : "(",
    lower?.bound ?? MINUS_INFINITY,
    upper?.bound ?? INFINITY,
    upper?.operator === "leq" ? "]" : ")",
  );
}

const INFINITY: Answer = { ...asVariable(""), expression: { kind: "constant", name: "infinity" } };
const MINUS_INFINITY: Answer = {
  ...asVariable(""),
  expression: apply("negate", { kind: "constant", name: "infinity" }),
};

function tuple(open: "(" | "[", lower: Answer, upper: Answer, close: ")" | "]"): TupleAnswer {
  return { kind: "tuple", open, close, items: [lower, upper] };
}

function isConstant(answer: Answer): boolean {
  return answer.kind === "value" && variablesOf(answer.expression).length === 0;
}
