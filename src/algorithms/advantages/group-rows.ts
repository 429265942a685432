/** Rows by group. Groups may have any size, and their rows may be in any order. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { GroupKey } from "../../flow/token-batch.ts";

/** The rows of each group, groups in the order in which they first appear. */
export function groupRows(keyOf: readonly GroupKey[]): number[][] {
  const groups = new Map<GroupKey, number[]>();
  keyOf.forEach((key, row) => {
    const rows = groups.get(key);
    if (rows === undefined) groups.set(key, [row]);
    else rows.push(row);
  });
  return [...groups.values()];
}

/** One key per row: text or a finite number. */
export function expectKeys(name: string, keyOf: readonly GroupKey[], numRows: number): void {
  if (keyOf.length !== numRows) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `${name} has ${keyOf.length} entries for ${numRows} rows. It must hold the key of every row.`,
      { [name]: keyOf.length, numRows },
    );
  }
  const wrong = keyOf.findIndex((key) => typeof key === "number" && !Number.isFinite(key));
  if (wrong === -1) return;
  throw new RerollError("INVALID_ARGUMENT", `${name}[${wrong}] must be text or a finite number: got ${keyOf[wrong]}.`, {
    row: wrong,
    key: keyOf[wrong],
  });
}
