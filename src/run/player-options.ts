/** The players of an agent that plays several. */
import { z } from "zod";

const playerOption = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("trained") }),
  z.strictObject({ type: z.literal("untrained") }),
  z.strictObject({
    type: z.literal("past"),
    every: z
      .int()
      .positive()
      .describe("Number of training steps after which the past version is replaced by the weights of the run."),
  }),
]);

/** Players by name. */
export const playerOptions = z
  .record(z.string().regex(/^[\w-]{1,32}$/, "use up to 32 letters, digits, dashes and underscores"), playerOption)
  .default({})
  .describe(
    "Players of an agent that plays several, by the name that call.player takes. trained: its replies are trained on, with a reward of its own. untrained: sampled with the weights of the run, and not trained on. past: sampled with weights that the run had up to { every } steps ago, in an engine of its own, and not trained on.",
  );

/** The intervals at which past versions are replaced, each once: one engine serves all players of an interval. */
export function pastIntervals(players: z.output<typeof playerOptions>): readonly number[] {
  return [...new Set(Object.values(players).flatMap((player) => (player.type === "past" ? [player.every] : [])))];
}

/** The names of the players that are trained; none where the agent plays alone. */
export function trainedPlayers(players: z.output<typeof playerOptions>): readonly string[] {
  return Object.entries(players).flatMap(([name, { type }]) => (type === "trained" ? [name] : []));
}
