/** The last rank is killed while the others wait for it in an all-reduce. */
import { tensor } from "../../../src/torch/create.ts";
import { failureOf, joinTestGroup, leave, rank, report, signal, waitForSignal, worldSize } from "./rank.ts";

const group = await joinTestGroup(20_000);
await group.barrier();
if (rank === worldSize - 1) {
  for (let peer = 0; peer < rank; peer++) await waitForSignal(`rank ${peer} waits`);
  process.kill(process.pid, "SIGKILL");
}
const values = tensor([1, 2, 3]);
const failure = failureOf(group.allReduce(values));
signal(`rank ${rank} waits`);
report(await failure);
report(await failureOf(group.broadcast(values)));
report(tensor([20, 22]).sum().item());
group.dispose();
leave();
