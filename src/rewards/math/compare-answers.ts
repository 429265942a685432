/**
 * Decides whether an answer means the same as the truth, without leaving the thread.
 *
 * Out comes "equal", "different", or "open" with the pairs of LaTeX that a computer algebra system has to find equal, all of
 * them, for the answers to be. No pairs means that nobody can tell. "equal" is never a guess.
 */

import { readRational } from "../../numbers/rational.ts";
import { alignForms, assignedName, isCollection } from "./align-answers.ts";
import type { Answer, RelationAnswer, TupleAnswer, ValueAnswer } from "./answer.ts";
import { compareExpressions } from "./compare-expressions.ts";
import { compareRelations } from "./compare-relations.ts";
import { apply, type Expression, integer } from "./expression.ts";
import { isArithmetic } from "./is-arithmetic.ts";
import { hasOtherMatrixOrder } from "./matrix-order.ts";
import { answerText, parseAnswer } from "./parse-answer.ts";

interface CompareOptions {
  /** A decimal with at least this many significant digits equals what rounds to it. Below, decimals are exact. */
  readonly roundedDigits: number;
  /** Whether `50%` equals a truth of 0.5. A truth of `50%` always equals 0.5, and 50. */
  readonly percentIsFraction: boolean;
}

export type Comparison =
  | { readonly kind: "equal" }
  | { readonly kind: "different" }
  | { readonly kind: "open"; readonly pairs: readonly (readonly [string, string])[] };

/** Longer and deeper answers are compared as text only. Reading takes time in proportion to length times depth. */
const MAX_LENGTH = 2_000;
const MAX_DEPTH = 50;

export function compareAnswers(truth: string, candidate: string, options: CompareOptions): Comparison {
  if (!isReadable(truth) || !isReadable(candidate)) return found(truth.trim() === candidate.trim());
  if (answerText(truth) === answerText(candidate)) return found(candidate.trim() !== "");
  const [left, right] = [parseAnswer(truth), parseAnswer(candidate)];
  if (left.kind === "choice" && right.kind !== "choice") return found(leadingChoice(candidate) === left.letter);
  return compare(left, right, options);
}

const EQUAL: Comparison = { kind: "equal" };
const DIFFERENT: Comparison = { kind: "different" };
const UNDECIDABLE: Comparison = { kind: "open", pairs: [] };

function found(isEqual: boolean): Comparison {
  return isEqual ? EQUAL : DIFFERENT;
}

function isReadable(text: string): boolean {
  if (text.length > MAX_LENGTH) return false;
  let [depth, deepest] = [0, 0];
  for (const sign of text) {
    if (OPENING.includes(sign)) deepest = Math.max(deepest, ++depth);
    else if (CLOSING.includes(sign)) depth = Math.max(0, depth - 1);
  }
  return deepest <= MAX_DEPTH;
}

const OPENING = "([{";
const CLOSING = ")]}";

/** The letter of `(C) 15`, `C. because ...`, `\textbf{(C)}`. */
function leadingChoice(source: string): string | null {
  const plain = source.replace(/\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{|[{}$*]|\\[ ,;]/g, " ").trim();
  return (
    /^(?:\(([A-J])\)|([A-J])[.:)])(?:\s|$)/
      .exec(plain)
      ?.slice(1)
      .find((letter) => letter !== undefined) ?? null
  );
}

function compare(truth: Answer, candidate: Answer, options: CompareOptions): Comparison {
  const [left, right] = alignForms(truth, candidate);
  if (left.kind === "opaque" || right.kind === "opaque") return compareOpaque(left, right);
  if (left.kind === "value" && right.kind === "value") return compareValues(left, right, options);
  if (left.kind === "choice" && right.kind === "choice") return found(left.letter === right.letter);
  if (left.kind === "words" && right.kind === "words") return found(left.text === right.text && left.text !== "");
  if (left.kind === "tuple" && right.kind === "tuple") return compareTuples(left, right, options);
  if (left.kind === "matrix" && right.kind === "matrix") return compareMatrices(left.rows, right.rows, options);
  if (left.kind === "union" && right.kind === "union") return compareUnordered(left.parts, right.parts, options);
  if (left.kind === "relation" && right.kind === "relation") return compareRelationAnswers(left, right, options);
  if (isCollection(left) && isCollection(right)) {
    const isOrdered = left.kind === "list" && right.kind === "list" && left.items.every(isName);
    return isOrdered
      ? compareOrdered(left.items, right.items, options)
      : compareUnordered(left.items, right.items, options);
  }
  return DIFFERENT;
}

/** Ranked names come in an order that matters; solutions do not. */
function isName(answer: Answer): boolean {
  return answer.kind === "words" || answer.kind === "choice";
}

function compareRelationAnswers(left: RelationAnswer, right: RelationAnswer, options: CompareOptions): Comparison {
  const [leftName, rightName] = [assignedName(left), assignedName(right)];
  if (leftName !== null && leftName === rightName) return compare(left.sides[1]!, right.sides[1]!, options);
  const verdict = compareRelations(left, right, options);
  if (verdict === "equal" && hasOtherMatrixOrder(left.sides.flatMap(expressionsOf), right.sides.flatMap(expressionsOf)))
    return UNDECIDABLE;
  if (verdict !== "unknown") return found(verdict === "equal");
  const isAlike =
    left.sides.length === right.sides.length && left.operators.every((operator, i) => operator === right.operators[i]);
  return isAlike ? compareOrdered(left.sides, right.sides, options) : UNDECIDABLE;
}

function expressionsOf(answer: Answer): readonly Expression[] {
  return answer.kind === "value"
    ? [answer.expression]
    : answer.kind === "choice"
      ? [{ kind: "variable", name: answer.letter }]
      : [];
}

/** Brackets matter for two items, which may be an interval; more are a point in either kind. */
function compareTuples(left: TupleAnswer, right: TupleAnswer, options: CompareOptions): Comparison {
  const [kindLeft, kindRight] = [left, right].map(({ open, close, items }) =>
    POINTS.has(open + close) && items.length > 2 ? "point" : open + close,
  );
  return kindLeft === kindRight ? compareOrdered(left.items, right.items, options) : DIFFERENT;
}

const POINTS = new Set(["()", "[]"]);

function compareMatrices(
  left: readonly (readonly Answer[])[],
  right: readonly (readonly Answer[])[],
  options: CompareOptions,
): Comparison {
  return left.length === right.length && left[0]!.length === right[0]!.length
    ? compareOrdered(left.flat(), right.flat(), options)
    : DIFFERENT;
}

function compareOrdered(left: readonly Answer[], right: readonly Answer[], options: CompareOptions): Comparison {
  if (left.length !== right.length) return DIFFERENT;
  const comparisons = left.map((item, i) => compare(item, right[i]!, options));
  if (comparisons.some(({ kind }) => kind === "different")) return DIFFERENT;
  const open = comparisons.filter((comparison) => comparison.kind === "open");
  if (open.length === 0) return EQUAL;
  return {
    kind: "open",
    pairs: open.some(({ pairs }) => pairs.length === 0) ? [] : open.flatMap(({ pairs }) => pairs),
  };
}

/** Pairs off what is equal. The rest is open where every item on either side may still have a partner, and different otherwise. */
function compareUnordered(left: readonly Answer[], right: readonly Answer[], options: CompareOptions): Comparison {
  if (left.length !== right.length) return DIFFERENT;
  // Each pair is compared once: twice per level would be without end for sets in sets in sets.
  const known = new Map<number, Comparison["kind"]>();
  const kindOf = (i: number, j: number) => {
    const kind = known.get(i * right.length + j) ?? compareItems(left[i]!, right[j]!, options);
    known.set(i * right.length + j, kind);
    return kind;
  };
  const others = [...right.keys()];
  const single = [...left.keys()].filter((i) => {
    const match = others.findIndex((j) => kindOf(i, j) === "equal");
    if (match !== -1) others.splice(match, 1);
    return match === -1;
  });
  if (single.length === 0) return EQUAL;
  const isOpen = (i: number, j: number) => kindOf(i, j) === "open";
  const mayMatch =
    single.every((i) => others.some((j) => isOpen(i, j))) && others.every((j) => single.some((i) => isOpen(i, j)));
  return mayMatch ? UNDECIDABLE : DIFFERENT;
}

/** Here a name is no decoration: `x = 1, y = 2` does not say the same as `2, 1`. */
function compareItems(item: Answer, other: Answer, options: CompareOptions): Comparison["kind"] {
  return (item.kind === "relation") === (other.kind === "relation") ? compare(item, other, options).kind : "different";
}

function compareOpaque(left: Answer, right: Answer): Comparison {
  if (left.kind === "words" || right.kind === "words") return DIFFERENT;
  const [a, b] = [latexOf(left), latexOf(right)];
  if (a === b && a !== "") return EQUAL;
  const isForAlgebra =
    a !== "" &&
    b !== "" &&
    [left, right].every((side) => side.kind === "value" || ALGEBRA.test(latexOf(side))) &&
    numTerms(a) <= MAX_TERMS &&
    numTerms(b) <= MAX_TERMS;
  return { kind: "open", pairs: isForAlgebra ? [[a, b]] : [] };
}

/** Notation that computer algebra reads as people mean it. What it makes of other notation that is unknown here is a guess. */
const ALGEBRA = /\\(?:sum|prod|int|lim|gcd|lcm|max|min|det) /;

/** Computer algebra adds and multiplies term by term, a tenth of a millisecond each. */
const MAX_TERMS = 10_000;
const INDEXED = /\\(?:sum|prod) (?:_ \{ ([^{}]*) \} )?(?:\^ \{ (?=(.{0,40})))?/g;

/** About how many terms the sums and products have, all within each other; those up to a variable or to infinity count once. */
function numTerms(latex: string): number {
  let product = 1;
  for (const [, from = "", to = ""] of latex.matchAll(INDEXED)) {
    const [bound = ""] = to.replaceAll(/[a-z] \^ \{ [23] \}/g, "n").split(" }");
    if (/[\^!]/.test(from + bound)) return Number.POSITIVE_INFINITY;
    const numbers = `${from} ${bound}`.match(/\d+(?:\.\d+)?(?:e\d+)?/g) ?? [];
    product *= Math.max(1, ...numbers.map(Number));
  }
  return product;
}

function latexOf(answer: Answer): string {
  return answer.kind === "opaque" || answer.kind === "value" ? answer.latex : "";
}

function compareValues(truth: ValueAnswer, candidate: ValueAnswer, options: CompareOptions): Comparison {
  if (truth.label !== null && candidate.label !== null && truth.label !== candidate.label) return DIFFERENT;
  if (truth.unit !== null && candidate.unit !== null && truth.unit.dimension !== candidate.unit.dimension)
    return DIFFERENT;
  const hasOtherScale = truth.unit !== null && candidate.unit !== null && truth.unit.factor !== candidate.unit.factor;
  const left = hasOtherScale ? scaled(truth.expression, truth.unit.factor) : truth.expression;
  const right = hasOtherScale ? scaled(candidate.expression, candidate.unit.factor) : candidate.expression;
  const verdict = compareExpressions(left, right, options);
  const isMixed = truth.isPercent ? !candidate.isPercent : candidate.isPercent && options.percentIsFraction;
  if (verdict === "different" && isMixed) {
    const [ofTruth, ofCandidate] = [truth, candidate].map(({ expression, isPercent }) =>
      isPercent ? apply("percent", expression) : expression,
    );
    return found(compareExpressions(ofTruth!, ofCandidate!, options) === "equal");
  }
  if (verdict === "equal" && hasOtherMatrixOrder([left], [right])) return UNDECIDABLE;
  if (verdict !== "unknown") return found(verdict === "equal");
  // Whole numbers and fractions of them that are too large for exact arithmetic are too large for any other.
  if (isArithmetic(left) && isArithmetic(right)) return UNDECIDABLE;
  return {
    kind: "open",
    pairs: hasOtherScale || truth.latex === "" || candidate.latex === "" ? [] : [[truth.latex, candidate.latex]],
  };
}

function scaled(expression: Expression, factor: number): Expression {
  const value = readRational(factor.toString());
  return apply("multiply", expression, value === null ? integer(1) : { kind: "number", value, decimals: null });
}
