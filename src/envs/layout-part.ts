/**
 * Which part of a small world a layout belongs to: a fifth of all layouts is for validation.
 *
 * By what it is and not by its seed: small maps are few, and other seeds draw the same ones again.
 */
import { z } from "zod";
import { deriveSeed, Random } from "../random/random.ts";

/** The option of an environment that draws its worlds from one part. */
export const layoutPart = z.enum(["all", "train", "validation"]).default("all");

/** Whether the layout, written as text, may be drawn. */
export function isInPart(layout: string, part: z.output<typeof layoutPart>): boolean {
  if (part === "all") return true;
  return (new Random(deriveSeed(0, layout)).integer(5) === 0) === (part === "validation");
}
