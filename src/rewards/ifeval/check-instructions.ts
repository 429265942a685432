/**
 * Which instructions of a row a reply follows.
 *
 * Comes in: the ids and arguments of the row (`instruction_id_list`, `kwargs`), the reply. Goes out: one boolean each.
 * The checks are those of IFEval (arXiv:2311.07911) and of its published code; where ours differ, the check says so.
 */
import { z } from "zod";
import { nearestName } from "../../errors/nearest-name.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import type { Instruction, InstructionCheck } from "./define-instruction.ts";
import { formatInstructions } from "./format-instructions.ts";
import { keywordInstructions } from "./keyword-instructions.ts";
import { lengthInstructions } from "./length-instructions.ts";
import { textInstructions } from "./text-instructions.ts";

/** All 25 kinds of instructions by id. */
export const instructions = {
  ...keywordInstructions,
  ...lengthInstructions,
  ...formatInstructions,
  ...textInstructions,
} as const satisfies Record<string, Instruction>;

const truthSchema = z.object({
  instruction_id_list: z.array(z.string()).min(1),
  kwargs: z.array(z.record(z.string(), z.json()).nullable()),
});

/** An instruction of a row, ready to check replies. */
interface RowInstruction {
  readonly id: string;
  readonly isFollowed: InstructionCheck;
}

/** Reads the truth of a row: `{ instruction_id_list, kwargs }`. Arguments that are null count as not given. */
export function parseInstructions(truth: JsonValue): RowInstruction[] {
  const parsed = truthSchema.safeParse(truth);
  if (!parsed.success || parsed.data.kwargs.length !== parsed.data.instruction_id_list.length) {
    throw new RerollError(
      "INVALID_TRUTH",
      "The truth of an ifeval prompt must be { instruction_id_list: string[], kwargs: object[] } with as many kwargs as ids: " +
        `got ${JSON.stringify(truth)?.slice(0, 200)}.`,
    );
  }
  const { instruction_id_list: ids, kwargs } = parsed.data;
  return ids.map((id, i) => ({ id, isFollowed: parseOne(id, kwargs[i] ?? {}) }));
}

/** Whether a reply follows each instruction. An empty reply follows none. */
export function checkStrict(row: readonly RowInstruction[], reply: string): boolean[] {
  return row.map(({ isFollowed }) => reply.trim() !== "" && isFollowed(reply));
}

/** As checkStrict, for the best of eight forms of the reply: without its first line, its last line, its stars. */
export function checkLoose(row: readonly RowInstruction[], reply: string): boolean[] {
  const lines = reply.split("\n");
  const shortened = [lines.slice(1), lines.slice(0, -1), lines.slice(1, -1)].map((kept) => kept.join("\n").trim());
  const forms = [reply, ...shortened].flatMap((form) => [form, form.replaceAll("*", "")]);
  return row.map(({ isFollowed }) => forms.some((form) => form.trim() !== "" && isFollowed(form)));
}

function parseOne(id: string, kwargs: Readonly<Record<string, unknown>>): InstructionCheck {
  const instruction = Object.entries<Instruction>(instructions).find(([known]) => known === id)?.[1];
  if (instruction === undefined) {
    const nearest = nearestName(id, Object.keys(instructions));
    const hint = nearest === undefined ? `Known are: ${Object.keys(instructions).join(", ")}` : `Nearest: "${nearest}"`;
    throw new RerollError("INVALID_TRUTH", `"${id}" is not an ifeval instruction. ${hint}.`, { id });
  }
  const given = Object.fromEntries(Object.entries(kwargs).filter(([, value]) => value !== null));
  try {
    return instruction.parse(given);
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause) : String(cause);
    throw new RerollError(
      "INVALID_TRUTH",
      `The arguments of ifeval instruction "${id}" do not fit: got ${JSON.stringify(given)}. ${reason}`,
      { id, given },
      { cause },
    );
  }
}
