/** The players of an agent that plays several. */
import { z } from "zod";

const playerOption = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("trained") }),
  z.strictObject({ type: z.literal("untrained") }),
]);

/** Players by name. */
export const playerOptions = z
  .record(z.string().regex(/^[\w-]{1,32}$/, "use up to 32 letters, digits, dashes and underscores"), playerOption)
  .default({})
  .describe(
    "Players of an agent that plays several, by the name that call.player takes. trained: its replies are trained on, with a reward of its own. untrained: sampled with the weights of the run, and not trained on.",
  );

/** The names of the players that are trained; none where the agent plays alone. */
export function trainedPlayers(players: z.output<typeof playerOptions>): readonly string[] {
  return Object.entries(players).flatMap(([name, { type }]) => (type === "trained" ? [name] : []));
}
