/**
 * Countdown puzzles: some numbers and a target that can be reached from them by `+ - * /`.
 *
 * In: sizes and a source of chance. Out: a puzzle that has a solution, or the solution of a puzzle.
 */
import type { Random } from "../../random/random.ts";

/** What is given and what is wanted. */
export interface Puzzle {
  readonly numbers: readonly number[];
  readonly target: number;
}

/** How large a drawn puzzle is. Numbers and target are 1 or more. */
interface PuzzleSizes {
  readonly numNumbers: number;
  readonly maxNumber: number;
  readonly maxTarget: number;
}

/** A value, and the expression that gives it. */
interface Term {
  readonly value: number;
  readonly text: string;
}

/** Draws numbers and joins them all at random until what comes out can be a target. */
export function drawPuzzle({ numNumbers, maxNumber, maxTarget }: PuzzleSizes, random: Random): Puzzle {
  for (;;) {
    const numbers = Array.from({ length: numNumbers }, () => 1 + random.integer(maxNumber));
    let terms = numbers.map(toTerm);
    while (terms.length > 1) {
      const [left, right, ...rest] = random.shuffled(terms);
      terms = [random.pick(joinings(left!, right!)), ...rest];
    }
    const target = terms[0]!.value;
    if (target >= 1 && target <= maxTarget) return { numbers, target };
  }
}

/** An expression that reaches the target through whole numbers; null where there is none. */
export function solvePuzzle({ numbers, target }: Puzzle, mustUseAll: boolean): string | null {
  return search(numbers.map(toTerm), target, mustUseAll, new Set());
}

function search(terms: readonly Term[], target: number, mustUseAll: boolean, seen: Set<string>): string | null {
  const solved = terms.find(({ value }) => value === target);
  if (solved !== undefined && (!mustUseAll || terms.length === 1)) return solved.text;
  const key = terms
    .map(({ value }) => value)
    .sort((a, b) => a - b)
    .join(" ");
  if (seen.has(key)) return null;
  seen.add(key);
  for (let i = 0; i < terms.length; i++) {
    for (let j = i + 1; j < terms.length; j++) {
      const rest = terms.filter((_, k) => k !== i && k !== j);
      for (const joined of joinings(terms[i]!, terms[j]!)) {
        const found = search([...rest, joined], target, mustUseAll, seen);
        if (found !== null) return found;
      }
    }
  }
  return null;
}

/** Every whole number of 0 or more that two terms give. */
function joinings(left: Term, right: Term): Term[] {
  const [large, small] = left.value >= right.value ? [left, right] : [right, left];
  const join = (sign: string, value: number) => ({ value, text: `(${large.text} ${sign} ${small.text})` });
  const results = [
    join("+", large.value + small.value),
    join("-", large.value - small.value),
    join("*", large.value * small.value),
  ];
  if (small.value !== 0 && large.value % small.value === 0) results.push(join("/", large.value / small.value));
  return results.filter(({ value }) => Number.isSafeInteger(value));
}

function toTerm(value: number): Term {
  return { value, text: String(value) };
}
