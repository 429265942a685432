/** A calculator that never rounds: `0.1 + 0.2` is `0.3`, and a third stays a third. */
import { z } from "zod";
import { formatRational } from "../../numbers/rational.ts";
import { evaluateArithmetic } from "../arithmetic/evaluate-arithmetic.ts";
import type { Tool } from "./tool.ts";

const calculatorArguments = z.object({
  expression: z.string().describe("An expression of numbers, + - * / ^ and parentheses, such as (2 + 3) * 4.5"),
});

/** Takes `{ expression }`. */
export const calculatorTool: Tool = {
  name: "calculator",
  description: "Computes an arithmetic expression exactly.",
  parameters: z.toJSONSchema(calculatorArguments),
  call: (given) => {
    const parsed = calculatorArguments.safeParse(given);
    if (!parsed.success) return { kind: "error", text: 'calculator needs the argument "expression", a text.' };
    const result = evaluateArithmetic(parsed.data.expression);
    if (result.kind === "value") return { kind: "ok", text: formatRational(result.value) };
    return { kind: "error", text: `calculator cannot read this: ${result.error}.` };
  },
};
