/** The seeds of a command line: "3" is 1, 2 and 3; "4-6" is 4, 5 and 6. */
export function readSeeds(text: string): readonly number[] {
  const [first, last] = text.includes("-") ? text.split("-").map(Number) : [1, Number(text)];
  if (!Number.isInteger(first) || !Number.isInteger(last)) throw new Error(`Seeds are "3" or "4-6": got "${text}".`);
  return Array.from({ length: last! - first! + 1 }, (_, i) => first! + i);
}
