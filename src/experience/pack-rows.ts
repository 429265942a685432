/** Decides which rows go through the model together: as few parts as a budget of tokens allows, about equally full. */
import { RerollError } from "../errors/reroll-error.ts";

/**
 * Parts of row numbers whose lengths add up to at most `maxTokens`: longest first, each into the emptiest part that has room.
 * The same lengths give the same parts. Rows of equal length are neighbors, since those share an attention call.
 */
export function packRows(lengths: readonly number[], maxTokens: number): readonly (readonly number[])[] {
  const longest = lengths.reduce((most, length) => Math.max(most, length), 0);
  if (longest > maxTokens) {
    throw new RerollError(
      "BUDGET_TOO_SMALL",
      `A sample has ${longest} tokens, but maxTokensPerMicrobatch is ${maxTokens}. Raise it to ${longest} or more, or cut samples shorter.`,
      { longest, maxTokens },
    );
  }
  const total = lengths.reduce((sum, length) => sum + length, 0);
  for (let numParts = Math.max(1, Math.ceil(total / maxTokens)); ; numParts++) {
    const parts = spread(lengths, numParts, maxTokens);
    if (parts !== null) return parts.filter((rows) => rows.length > 0);
  }
}

function spread(lengths: readonly number[], numParts: number, maxTokens: number): number[][] | null {
  const parts = Array.from({ length: numParts }, (): number[] => []);
  const sizes = new Float64Array(numParts);
  const byLength = lengths.map((_, row) => row).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  for (const row of byLength) {
    let emptiest = 0;
    for (let part = 1; part < numParts; part++) if (sizes[part]! < sizes[emptiest]!) emptiest = part;
    if (sizes[emptiest]! + lengths[row]! > maxTokens) return null;
    parts[emptiest]!.push(row);
    sizes[emptiest]! += lengths[row]!;
  }
  return parts;
}
