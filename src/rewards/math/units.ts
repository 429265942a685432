/**
 * Units of measurement that answers carry: what their names mean, and how they convert.
 *
 * A unit is a dimension and a factor to its base unit. Words that are no measure ("ways", "dogs") are no unit.
 */

/** What one of this unit is in base units of its dimension, such as `{ dimension: "length^2", factor: 0.0001 }`. */
export interface Unit {
  readonly dimension: string;
  readonly factor: number;
}

/** The unit that words name, with "square", "cubic" or a power beside it; null where they name none. */
export function readUnit(words: string, power = 1): Unit | null {
  const [first = "", ...others] = words.replace(/[.]/g, "").split(" ");
  const modifier = MODIFIERS[first];
  const name = modifier === undefined || others.length === 0 ? [first, ...others].join(" ") : others.join(" ");
  const unit = UNITS.get(name);
  if (unit === undefined) return null;
  const exponent = power * (modifier ?? 1);
  return exponent === 1 ? unit : { dimension: `${unit.dimension}^${exponent}`, factor: unit.factor ** exponent };
}

/** Whether a bare word of two or more letters, as in `5 cm`, is a unit and not a product of variables. */
export function isUnitName(word: string): boolean {
  return UNITS.has(word);
}

/** The two units that signs stand for. */
export const DEGREE: Unit = { dimension: "angle", factor: 1 };
export const DOLLAR: Unit = { dimension: "dollar", factor: 1 };

const MODIFIERS: Readonly<Record<string, number>> = { square: 2, sq: 2, cubic: 3, cu: 3 };

const TABLE: readonly (readonly [dimension: string, factor: number, names: string])[] = [
  ["angle", 1, "degree degrees deg"],
  ["radian", 1, "radian radians rad"],
  ["dollar", 1, "dollar dollars usd"],
  ["dollar", 0.01, "cent cents"],
  ["euro", 1, "euro euros"],
  ["length", 0.001, "mm millimeter millimeters"],
  ["length", 0.01, "cm centimeter centimeters"],
  ["length", 1, "m meter meters metre metres"],
  ["length", 1000, "km kilometer kilometers"],
  ["length", 0.0254, "inch inches"],
  ["length", 0.3048, "foot feet ft"],
  ["length", 0.9144, "yard yards yd"],
  ["length", 1609.344, "mile miles mi"],
  ["time", 1, "s second seconds sec"],
  ["time", 60, "minute minutes min"],
  ["time", 3600, "h hour hours hr hrs"],
  ["time", 86400, "day days"],
  ["time", 604800, "week weeks"],
  ["month", 1, "month months"],
  ["month", 12, "year years"],
  ["mass", 0.001, "g gram grams"],
  ["mass", 1, "kg kilogram kilograms"],
  ["mass", 0.45359237, "pound pounds lb lbs"],
  ["mass", 0.028349523125, "ounce ounces oz"],
  ["volume", 1, "l liter liters litre litres"],
  ["volume", 0.001, "ml milliliter milliliters"],
  ["volume", 3.785411784, "gallon gallons"],
  ["mph", 1, "mph"],
  ["kph", 1, "kph"],
];

const UNITS: ReadonlyMap<string, Unit> = new Map(
  TABLE.flatMap(([dimension, factor, names]) => names.split(" ").map((name) => [name, { dimension, factor }] as const)),
);
