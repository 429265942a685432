/**
 * The value of an expression at a point: as an exact fraction as long as it is one, then in complex floating point.
 *
 * Covers what written answers use: roots, powers, exponentials, logarithms, trigonometry. Unknown functions (`f(x)`) get made-up
 * values that depend on their name and arguments, so that two expressions agree only where they call them alike. A logarithm
 * without a base counts as one of an unknown base.
 */

import { invertRational, type Rational } from "../../numbers/rational.ts";
import { deriveSeed } from "../../random/random.ts";
import { applyExactly } from "./apply-exactly.ts";
import * as complex from "./complex.ts";
import { type Complex, UNKNOWN } from "./complex.ts";
import type { Expression } from "./expression.ts";

/** A value for each variable. */
export type Point = ReadonlyMap<string, Rational>;

/** An exact fraction where it is one, else a floating-point number: unknown (NaN) where it is undefined or cannot be trusted. */
export function evaluate(expression: Expression, point: Point): Rational | Complex {
  switch (expression.kind) {
    case "number":
      return expression.value;
    case "variable":
      return point.get(expression.name) ?? UNKNOWN;
    case "constant":
      return CONSTANTS[expression.name];
    case "apply": {
      const values = expression.args.map((argument) => evaluate(argument, point));
      const exact = values.every(isExact) ? applyExactly(expression.name, values) : null;
      return exact ?? applyFunction(expression.name, values);
    }
  }
}

/** The same expression with its exact constants computed, for one that is evaluated at many points. */
export function foldConstants(expression: Expression): Expression {
  if (expression.kind !== "apply") return expression;
  const args = expression.args.map(foldConstants);
  const values = args.flatMap((argument) => (argument.kind === "number" ? [argument.value] : []));
  const value = values.length === args.length ? applyExactly(expression.name, values) : null;
  return value === null ? { ...expression, args } : { kind: "number", value, decimals: null };
}

/** Whether a value is an exact fraction. */
export function isExact(value: Rational | Complex): value is Rational {
  return "numerator" in value;
}

/** A value in floating point. */
export function approximate(value: Rational | Complex): Complex {
  return isExact(value) ? complex.fromRational(value) : value;
}

const CONSTANTS: Readonly<Record<"pi" | "e" | "i" | "infinity", Complex>> = {
  pi: complex.fromReal(Math.PI),
  e: complex.fromReal(Math.E),
  i: { re: 0, im: 1, error: 0 },
  infinity: UNKNOWN,
};

function applyFunction(name: string, args: readonly (Rational | Complex)[]): Complex {
  const values = args.map(approximate);
  const [a = UNKNOWN, b = UNKNOWN] = values;
  if (values.some(({ re }) => Number.isNaN(re))) return UNKNOWN;
  if (name.startsWith("call ")) return callUnknown(name, values);
  const exponent = args[1] !== undefined && isExact(args[1]) ? args[1] : null;
  if (name === "power") return complex.power(a, b, exponent);
  if (name === "root")
    return complex.power(a, complex.divide(ONE, b), exponent === null ? null : invertRational(exponent));
  return FUNCTIONS[name]?.(a, b) ?? UNKNOWN;
}

type ComplexFunction = (a: Complex, b: Complex) => Complex;

const FUNCTIONS: Readonly<Record<string, ComplexFunction>> = {
  add: complex.add,
  mixed: complex.add,
  negate: complex.negate,
  multiply: complex.multiply,
  multiple: complex.multiply,
  divide: complex.divide,
  abs: (a) => (complex.isHuge(a) ? complex.HUGE : complex.settle(complex.size(a), 0, a.error)),
  percent: (a) => complex.divide(a, complex.fromReal(100)),
  degrees: (a) => complex.multiply(a, complex.fromReal(Math.PI / 180)),
  floor: (a) => rounded(a, Math.floor),
  ceil: (a) => rounded(a, Math.ceil),
  factorial: (a) => (a.re > 170 && complex.isReal(a) ? complex.HUGE : UNKNOWN),
  ln: complex.logarithm,
  // The unknown base: any number no answer would contain.
  log: (a) => complex.multiply(complex.logarithm(a), complex.fromReal(0.7390851332151607)),
  sin: sine,
  cos: cosine,
  tan: (a) => complex.divide(sine(a), cosine(a)),
  cot: (a) => complex.divide(cosine(a), sine(a)),
  sec: (a) => complex.divide(ONE, cosine(a)),
  csc: (a) => complex.divide(ONE, sine(a)),
  sinh: hyperbolicSine,
  cosh: hyperbolicCosine,
  tanh: (a) => complex.divide(hyperbolicSine(a), hyperbolicCosine(a)),
  arcsin: (a) => inverse(a, Math.asin, (x) => 1 / Math.sqrt(1 - x * x)),
  arccos: (a) => inverse(a, Math.acos, (x) => 1 / Math.sqrt(1 - x * x)),
  arctan: (a) => inverse(a, Math.atan, (x) => 1 / (1 + x * x)),
};

const ONE = complex.fromReal(1);
const TWO = complex.fromReal(2);

function sine(a: Complex): Complex {
  const size = complex.size(a);
  if (!(size < 1e6)) return UNKNOWN;
  // Below one the sine is about its argument, and so is its rounding: sin(10^-20) is not 0.
  const error = (a.error + 2 ** -51 * (size < 1 ? size : 1 + size)) * Math.cosh(a.im);
  return complex.settle(Math.sin(a.re) * Math.cosh(a.im), Math.cos(a.re) * Math.sinh(a.im), error);
}

function cosine(a: Complex): Complex {
  if (!(complex.size(a) < 1e6)) return UNKNOWN;
  const error = (a.error + 2 ** -51 * (1 + complex.size(a))) * Math.cosh(a.im);
  return complex.settle(Math.cos(a.re) * Math.cosh(a.im), -Math.sin(a.re) * Math.sinh(a.im), error);
}

function hyperbolicSine(a: Complex): Complex {
  const [grown, shrunk] = [complex.exponential(a), complex.exponential(complex.negate(a))];
  return complex.divide(complex.add(grown, complex.negate(shrunk)), TWO);
}

function hyperbolicCosine(a: Complex): Complex {
  return complex.divide(complex.add(complex.exponential(a), complex.exponential(complex.negate(a))), TWO);
}

function inverse(a: Complex, compute: (x: number) => number, slope: (x: number) => number): Complex {
  if (!complex.isReal(a) || complex.isHuge(a)) return UNKNOWN;
  const value = compute(a.re);
  return complex.settle(value, 0, a.error * Math.abs(slope(a.re)) + 2 ** -51 * Math.abs(value));
}

/** Unknown on a whole number that was not computed exactly: its floor hangs on the rounding. */
function rounded(a: Complex, round: (x: number) => number): Complex {
  const isClear = complex.isReal(a) && !complex.isHuge(a) && Math.abs(a.re - Math.round(a.re)) > 4 * a.error + 1e-9;
  return isClear ? complex.fromReal(round(a.re)) : UNKNOWN;
}

function callUnknown(name: string, values: readonly Complex[]): Complex {
  let result = complex.fromReal(1 + deriveSeed(0, name) / 2 ** 32);
  values.forEach((value, i) => {
    const weight = complex.fromReal(1 + deriveSeed(i + 1, name) / 2 ** 32);
    result = complex.add(complex.multiply(result, weight), sine(complex.multiply(value, weight)));
    result = complex.add(result, complex.multiply(value, complex.fromReal(0.5)));
  });
  return result;
}
