/**
 * Steps of a token trainer that shares each batch with the other ranks. Reports the weights after them, and how many updates
 * there were.
 */
import { createProcessGroupRanks } from "../../../src/training/process-group-ranks.ts";
import { batchOf, newModel, trainerOf, trainingCases, weightsOf } from "../../training/token-batches.ts";
import { joinTestGroup, leave, rank, report } from "./rank.ts";

const group = await joinTestGroup(60_000);
for (const { choice, minibatchTrajectories, batch } of trainingCases) {
  // Ranks start apart: the weights of rank 0 must win.
  const model = newModel(1 + rank);
  const strategy = await createProcessGroupRanks(group, model.namedParameters());
  const trainer = trainerOf(model, choice, { minibatchTrajectories, strategy });
  let numUpdates = 0;
  for (let step = 0; step < 3; step++) {
    numUpdates += (await trainer.step(batchOf(batch, step))).numUpdates;
  }
  report({ weights: weightsOf(model), numUpdates });
}
leave();
