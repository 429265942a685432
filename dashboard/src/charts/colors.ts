/** Colors that can be told apart on light and dark, also by most people who see fewer of them. */
const COLORS = [
  ...["#4c7dff", "#e8710a", "#12a37f", "#c2409f", "#b58900", "#7b61ff", "#d1495b", "#2aa1c0"],
  ...["#6b9a2f", "#9a6446"],
] as const;

/** The n-th; they repeat. */
export function colorAt(index: number): string {
  return COLORS[index % COLORS.length]!;
}
