/** Every collective once, on float32 and int64: reports the values that this rank ends up with. */
import { tensor, zeros } from "../../../src/torch/create.ts";
import { joinTestGroup, leave, rank, report, worldSize } from "./rank.ts";

const group = await joinTestGroup(20_000);
const next = (rank + 1) % worldSize;
const previous = (rank + worldSize - 1) % worldSize;
const parts = Array.from({ length: worldSize }, (_, part) => (rank + 1) * (part + 1));

for (const dtype of ["float32", "int64"] as const) {
  const mine = () => tensor([rank + 1, 10 * (rank + 1)], { dtype });
  const values: Record<string, number[]> = {};
  const reductions =
    dtype === "float32"
      ? (["sum", "mean", "max", "min", "product"] as const)
      : (["sum", "max", "min", "product"] as const);
  for (const reduction of reductions) {
    const reduced = mine();
    await group.allReduce(reduced, reduction);
    values[`allReduce ${reduction}`] = reduced.toArray();
    const blocked = mine();
    group.allReduceSync(blocked, reduction);
    values[`allReduceSync ${reduction}`] = blocked.toArray();
    const scattered = zeros([1], { dtype });
    await group.reduceScatter(scattered, tensor(parts, { dtype }), reduction);
    values[`reduceScatter ${reduction}`] = scattered.toArray();
  }
  const scatteredSync = zeros([1], { dtype });
  group.reduceScatterSync(scatteredSync, tensor(parts, { dtype }));
  values.reduceScatterSync = scatteredSync.toArray();

  values.allGather = (await group.allGather(mine())).flatMap((one) => one.toArray());
  values.allGatherSync = group.allGatherSync(mine()).flatMap((one) => one.toArray());
  const gathered = zeros([worldSize, 2], { dtype });
  await group.allGatherInto(gathered, mine());
  values.allGatherInto = gathered.toArray();
  const gatheredSync = zeros([worldSize, 2], { dtype });
  group.allGatherIntoSync(gatheredSync, mine());
  values.allGatherIntoSync = gatheredSync.toArray();

  const told = mine();
  await group.broadcast(told, 1);
  values.broadcast = told.toArray();
  const toldSync = mine();
  group.broadcastSync(toldSync, worldSize - 1);
  values.broadcastSync = toldSync.toArray();

  const handed = zeros([2], { dtype });
  await Promise.all([group.send(mine(), next, 7), group.receive(handed, previous, 7)]);
  values["send and receive"] = handed.toArray();
  const first = zeros([2], { dtype });
  const second = zeros([2], { dtype });
  await Promise.all([
    group.send(mine(), next),
    group.send(mine().mul(2), next),
    group.receive(first, previous),
    group.receive(second, previous),
  ]);
  values["two messages"] = [...first.toArray(), ...second.toArray()];
  report(values);
}

const halves = tensor([1, 1 / 256], { dtype: "bfloat16" });
await group.allReduce(halves);
const flags = tensor([rank === 0 ? 1 : 0, 1], { dtype: "bool" });
await group.broadcast(flags, 0);
report({ bfloat16: halves.toArray(), bool: flags.toArray() });

const many = Array.from({ length: 24 }, (_, i) => tensor([i, rank]));
await Promise.all(many.map((one) => group.allReduce(one)));
await group.barrier();
group.barrierSync();
report(many.map((one) => one.toArray()));

group.dispose();
leave();
