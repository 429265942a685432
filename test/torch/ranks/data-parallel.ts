/** Gradients of a small module over the parts of a batch, reduced in several buckets. Reports them by name. */
import { noGrad } from "../../../src/torch/autograd.ts";
import { zeros } from "../../../src/torch/create.ts";
import { DataParallel } from "../../../src/torch/distributed/data-parallel.ts";
import { failureOf, joinTestGroup, leave, rank, report, worldSize } from "./rank.ts";
import { batchPart, gradientsByName, lossOfPart, SmallModel } from "./small-model.ts";

const group = await joinTestGroup(20_000);
const model = new SmallModel();
// Ranks start apart: the values of rank 0 must win.
if (rank > 0) noGrad(() => model.parameters().forEach((parameter) => void parameter.add_(rank)));
const parallel = await DataParallel.create({ group, parameters: model.namedParameters(), bucketBytes: 64 });
report(parallel.numBuckets);

lossOfPart(model, batchPart(rank, worldSize)).backward();
await parallel.reduceGradients();
report(gradientsByName(model));

model.zeroGrad();
if (rank === 1) model.rarelyUsed.grad = zeros([2]).add_(5);
await parallel.reduceGradients();
report(gradientsByName(model));

const other = new SmallModel({ width: rank === 0 ? 4 : 5 });
report(await failureOf(DataParallel.create({ group, parameters: other.namedParameters() })));
leave();
