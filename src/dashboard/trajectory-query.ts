/** What a list of trajectories can be asked for, as a schema: apart from the filter, which the page holds too. */
import { z } from "zod";
import { trajectoryFates } from "../tracking/trajectory-record.ts";

const bound = z.coerce.number().optional();

/** What a list can be asked for. Bounds are inclusive. */
export const trajectoryQuery = z.strictObject({
  stepMin: bound,
  stepMax: bound,
  rewardMin: bound,
  rewardMax: bound,
  tokensMin: bound,
  tokensMax: bound,
  end: z.string().optional(),
  domain: z.string().optional(),
  fate: z.enum(trajectoryFates).optional(),
  sort: z.enum(["step", "reward", "advantage", "numTokens", "numTurns"]).default("step"),
  order: z.enum(["up", "down"]).default("down"),
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(500).default(100),
});

/** A checked query. */
export type TrajectoryQuery = z.output<typeof trajectoryQuery>;
