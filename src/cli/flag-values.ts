/** Parsers for the values of flags: each returns the value, or says what is allowed. */
import { InvalidArgumentError } from "commander";

/** A whole number in a range. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`;
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It takes a whole number ${range}.`);
  };
}

/** A number in a range. */
export function numberIn(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== "" && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It takes a number from ${min} to ${max}.`);
  };
}

/** cpu, cuda or cuda:<n>. */
export function device(text: string): string {
  if (/^(cpu|cuda(:\d+)?)$/.test(text)) return text;
  throw new InvalidArgumentError("It takes cpu, cuda or cuda:<n>.");
}

/** Gathers a flag that may be given several times. */
export function several(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
