/** A pattern that a person wrote in a run file. */
import { z } from "zod";

/** JavaScript's syntax with the `u` flag. A pattern that does not compile is refused when the run file is read. */
export const patternOption = z.string().min(1).refine(isPattern, { message: "It is no valid pattern" });

function isPattern(pattern: string): boolean {
  try {
    new RegExp(pattern, "u");
    return true;
  } catch {
    return false;
  }
}
