/** The keys of a run file that say which roles of a run are on which devices. */
import { z } from "zod";

const devices = z
  .string()
  .regex(/^\d+(-\d+)?(,\d+(-\d+)?)*$/, 'use numbers of CUDA devices, such as "0-3" or "0,2"')
  .nullable()
  .default(null);

/** Where roles run. A role that is left out is placed by the run itself. */
export const placementOptions = z
  .strictObject({
    trainer: z
      .strictObject({
        devices: devices.describe(
          "CUDA devices of the trainer's ranks, one after another. Where there are fewer than training.ranks, ranks take them in turn and share them, which is for trying a strategy out and slower than one rank. null: one each, from the first.",
        ),
      })
      .prefault({})
      .describe("The ranks that train."),
    engine: z
      .strictObject({
        devices: devices.describe("CUDA devices of the engines. null: that of the trainer."),
        count: z
          .int()
          .positive()
          .nullable()
          .default(null)
          .describe("Number of engines that share the requests. null: one per device that engines have."),
        sleep: z
          .boolean()
          .nullable()
          .default(null)
          .describe(
            "Whether engines on the trainer's device give their caches back while it works, in synchronous runs. On a GPU every rollout then records its graphs again. null: where memory would be short otherwise.",
          ),
        workers: z
          .enum(["threads", "processes"])
          .nullable()
          .default(null)
          .describe(
            "Where engines run: in threads of the run, or in processes, which cannot take the run with them. null: threads on the trainer's device, processes on others.",
          ),
      })
      .prefault({})
      .describe("The engines that sample."),
  })
  .describe("Devices of each role of the run.");

/** The numbers that a list of devices such as "0-3,6" names, in order. */
export function listDevices(list: string): readonly number[] {
  return list.split(",").flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}
