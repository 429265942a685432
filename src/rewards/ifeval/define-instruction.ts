/** One kind of instruction whose following can be checked: what its row must say, and the check itself. */
import type { z } from "zod";

/** An instruction with the arguments of one row filled in. */
export type InstructionCheck = (reply: string) => boolean;

export interface Instruction {
  readonly args: z.ZodObject;
  /** The check for arguments that fit `args`; throws what zod throws for others. */
  readonly parse: (args: unknown) => InstructionCheck;
}

/** Ties a check to the schema of its arguments. Keys beyond the schema are refused. */
export function defineInstruction<Schema extends z.ZodObject>(
  args: Schema,
  isFollowed: (reply: string, args: z.output<Schema>) => boolean,
): Instruction {
  const strict = args.strict();
  return {
    args,
    parse: (value) => {
      const parsed = strict.parse(value) as z.output<Schema>;
      return (reply) => isFollowed(reply, parsed);
    },
  };
}
