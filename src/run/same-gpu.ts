/**
 * Servers on the trainer's own GPU: they are told where its weights lie there, and copy them into their own. Nothing else is moved, no second copy is
 * held, and no group is needed.
 *
 * The trainer lends its weights until every server has answered.
 */
import { invariant } from "../errors/reroll-error.ts";
import { noGrad } from "../torch/autograd.ts";
import { cudaProperties, cudaSynchronize, shareCudaMemory } from "../torch/cuda.ts";
import { bytesOf } from "../torch/dtype.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Trainer } from "../training/trainer.ts";
import { answered, handToServers, type SendingLine, type Transport } from "./sent-weights.ts";

export class SameGpu implements Transport {
  async send(trainer: Trainer, version: number, members: readonly SendingLine[]): Promise<number> {
    return trainer.withWeights(async (weights) => {
      const lent = [...weights].map(([name, weight]) => ({
        name,
        tensor: keep(noGrad(() => tensorScope(() => weight.detach().contiguous()))),
      }));
      try {
        const { uuid } = cudaProperties(indexOf(lent[0]!.tensor.device));
        cudaSynchronize();
        const places = lent.map(({ name, tensor }) => ({
          name,
          dtype: tensor.dtype,
          shape: [...tensor.shape],
          memory: shareCudaMemory(tensor),
        }));
        await handToServers(members, version, async () => {
          const read = ({ http, routes }: SendingLine) =>
            answered(http, `read version ${version}`, routes.sameGpu!.read(http, uuid, places));
          await Promise.all(members.map(read));
        });
        const numBytes = lent.reduce((sum, { tensor }) => sum + tensor.numel * bytesOf(tensor.dtype), 0);
        return numBytes * members.length;
      } finally {
        for (const { tensor } of lent) tensor.dispose();
      }
    });
  }

  reset(): void {}

  async close(): Promise<void> {}
}

function indexOf(device: string): number {
  const [type, index = "0"] = device.split(":");
  invariant(type === "cuda", `weights on ${device} are shared by their place on a GPU`);
  return Number(index);
}
