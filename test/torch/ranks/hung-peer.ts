/** Rank 1 joins and then does nothing until rank 0 has given up waiting for it. */
import { tensor } from "../../../src/torch/create.ts";
import { failureOf, joinTestGroup, leave, rank, report, signal, waitForSignal } from "./rank.ts";

const group = await joinTestGroup(1_000);
if (rank === 1) {
  await waitForSignal("rank 0 gave up");
  report(await failureOf(group.allReduce(tensor([1, 2]))));
} else {
  report(await failureOf(group.allReduce(tensor([1, 2]))));
  signal("rank 0 gave up");
}
leave();
