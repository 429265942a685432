/** Instruction following: how many of the checkable instructions of its prompt a reply follows. */
import { z } from "zod";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { checkLoose, checkStrict, parseInstructions } from "./check-instructions.ts";

const options = z.strictObject({
  variant: z
    .enum(["strict", "loose"])
    .default("strict")
    .describe(
      "How strictly replies are read. loose: a first line, a last line and stars that were not asked for are forgiven.",
    ),
  level: z
    .enum(["prompt", "instruction"])
    .default("prompt")
    .describe(
      "What is scored. prompt: 1 when all instructions are followed, else 0. instruction: the share of instructions that are followed.",
    ),
  ignoreThinking: z.boolean().default(true).describe("Judges only what comes after </think>."),
});

/** The truth of a prompt is `{ instruction_id_list, kwargs }`, as in the rows of IFEval. */
export const ifeval: RewardDefinition<typeof options> = {
  type: "ifeval",
  options,
  build: ({ variant, level, ignoreThinking }) => ({
    name: "ifeval",
    cost: "instant",
    score: ({ prompt, reply }) => {
      const row = parseInstructions(prompt.truth);
      const text = ignoreThinking ? finalAnswer(reply) : reply;
      const followed = (variant === "strict" ? checkStrict : checkLoose)(row, text);
      const instructionLevel = followed.filter(Boolean).length / followed.length;
      const promptLevel = followed.every(Boolean) ? 1 : 0;
      const missed = row.filter((_, i) => followed[i] === false).map(({ id }) => id);
      return {
        value: level === "prompt" ? promptLevel : instructionLevel,
        parts: { prompt_level: promptLevel, instruction_level: instructionLevel },
        explanation: missed.length === 0 ? "follows all instructions" : `does not follow ${missed.join(", ")}`,
      };
    },
  }),
};
