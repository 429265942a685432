/** Checks on the settings of optimizers. */
import { RerollError } from "../../errors/reroll-error.ts";

/** Throws unless `low` <= value < `high`. NaN never passes. */
export function expectSetting(name: string, value: number, low: number, high = Number.POSITIVE_INFINITY): void {
  if (value >= low && value < high) return;
  const limit = high === Number.POSITIVE_INFINITY ? "and finite" : `and below ${high}`;
  throw new RerollError("INVALID_ARGUMENT", `${name} must be at least ${low} ${limit}: got ${value}.`);
}
