/** How a count is compared with the number an instruction names. */
import { z } from "zod";

/** The two relations that instructions use. */
export const relation = z.enum(["less than", "at least"]);

export function holds(count: number, how: z.output<typeof relation>, threshold: number): boolean {
  return how === "less than" ? count < threshold : count >= threshold;
}
