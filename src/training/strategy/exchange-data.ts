/** Plain data between ranks, for a few numbers and not for tensors. */
import { deserialize, serialize } from "node:v8";
import { tensor } from "../../torch/create.ts";
import type { ProcessGroup } from "../../torch/distributed/process-group.ts";
import type { Device } from "../../torch/dtype.ts";
import { keep } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** The values of all ranks as bytes, which keep NaN. Collectives need equal shapes, so the lengths go first. */
export async function exchangeData<Value>(
  group: ProcessGroup | null,
  own: Value,
  device: Device,
): Promise<readonly Value[]> {
  if (group === null) return [own];
  const place = group.backend === "gloo" ? "cpu" : device;
  const bytes = serialize(own);
  const lengths = (await gatherNumbers(group, [bytes.length], place)).map(([length]) => length ?? 0);
  const padded = [...bytes, ...new Array<number>(Math.max(...lengths) - bytes.length).fill(0)];
  const gathered = await gatherNumbers(group, padded, place);
  return gathered.map((all, rank) => deserialize(Uint8Array.from(all.slice(0, lengths[rank]))) as Value);
}

async function gatherNumbers(
  group: ProcessGroup,
  values: readonly number[],
  device: Device,
): Promise<readonly (readonly number[])[]> {
  const own = keep(tensor(Float64Array.from(values), [values.length], { device }));
  let all: readonly Tensor[] = [];
  try {
    all = await group.allGather(own);
    return all.map((one) => one.toArray());
  } finally {
    for (const one of [own, ...all]) one.dispose();
  }
}
