import { expect, test } from "vitest";
import { isInPart } from "./layout-part.ts";

const layouts = Array.from({ length: 5000 }, (_, i) => `layout ${i}`);

test("every layout is in exactly one part and in all, and about a fifth is for validation", () => {
  for (const layout of layouts) {
    expect(isInPart(layout, "all")).toBe(true);
    expect(isInPart(layout, "train")).not.toBe(isInPart(layout, "validation"));
  }
  const share = layouts.filter((layout) => isInPart(layout, "validation")).length / layouts.length;
  // Four deviations of a draw of 5000.
  expect(Math.abs(share - 0.2)).toBeLessThan(4 * Math.sqrt((0.2 * 0.8) / 5000));
});
