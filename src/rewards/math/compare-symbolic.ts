/**
 * Compares two pieces of LaTeX with a computer algebra system, to 60 digits.
 *
 * This is for what the fast comparison cannot read or tell: sums, products, greatest common divisors, differences beyond double
 * precision. It can hang on towers of powers, whatever limits are set, so it runs in a thread that can be killed.
 */
import type { ComputeEngine, Expression } from "@cortex-js/compute-engine";
import type { Verdict } from "./compare-expressions.ts";
import { drawPoint, type PointKind } from "./compare-expressions.ts";

const DIGITS = 60;

/** Relative. Between the two lie approximations, of integrals for example, which show nothing. */
const EQUAL_BELOW = 1e-40;
const DIFFERENT_ABOVE = 1e-3;

const REAL_POINTS: readonly PointKind[] = ["positive", "positive", "negative", "mixed", "mixed", "mixed"];
const WHOLE_POINTS: readonly PointKind[] = ["whole", "whole", "whole", "whole", "whole", "whole"];

/** What is defined for whole numbers only. */
const WHOLE_NOTATION = /\\(?:sum|prod|gcd|lcm)(?![a-zA-Z])/;

export function compareSymbolic(engine: ComputeEngine, left: string, right: string): Verdict {
  engine.precision = DIGITS;
  const [a, b] = [engine.parse(left), engine.parse(right)];
  if (!a.isValid || !b.isValid) return "unknown";
  if (a.isSame(b)) return "equal";
  const variables = [...new Set([...a.unknowns, ...b.unknowns])].sort();
  if (variables.length === 0) return compareNumerically(engine, a, b);
  const kinds = WHOLE_NOTATION.test(left + right) ? WHOLE_POINTS : REAL_POINTS;
  const verdicts = kinds.map((kind, i) => {
    const values = [...drawPoint(variables, kind, i)].map(([name, { numerator, denominator }]) => {
      return [name, engine.box(["Rational", Number(numerator), Number(denominator)])] as const;
    });
    const point = Object.fromEntries(values);
    return compareNumerically(engine, a.subs(point), b.subs(point));
  });
  if (verdicts.includes("different")) return "different";
  return verdicts.every((verdict) => verdict === "equal") ? "equal" : "unknown";
}

function compareNumerically(engine: ComputeEngine, a: Expression, b: Expression): Verdict {
  const scale = Math.max(magnitude(a.N()), magnitude(b.N()));
  const distance = magnitude(engine.box(["Subtract", a, b]).N());
  if (!Number.isFinite(scale) || !Number.isFinite(distance)) return "unknown";
  if (distance <= EQUAL_BELOW * scale) return "equal";
  return distance >= DIFFERENT_ABOVE * scale ? "different" : "unknown";
}

/** NaN for what is not zero and yet too small for a double, such as 10^-400. */
function magnitude(value: Expression): number {
  const size = Math.hypot(value.re, value.im);
  return size === 0 && value.is(0) !== true ? Number.NaN : size;
}
