/** The keys of a run file that say which roles of a run are on which devices. */
import { z } from "zod";

const devices = z
  .string()
  .regex(/^\d+(-\d+)?(,\d+(-\d+)?)*$/, 'use numbers of CUDA devices, such as "0-3" or "0,2"')
  .nullable()
  .default(null);

/** Roles that are with the trainer unless they are given a place. */
const apart = {
  devices: devices.describe(
    "CUDA devices of the workers that have this role, one each. null, or those of the trainer: it is with the trainer, in the same workers.",
  ),
  count: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe(
      "Number of workers that share the rows, as training.strategy says; they take devices in turn. null: one per device.",
    ),
  workers: z
    .enum(["threads", "processes"])
    .nullable()
    .default(null)
    .describe(
      "Where the role runs, apart from the trainer: in threads of the run, or in processes of its own. null: processes on devices of its own; otherwise it is with the trainer.",
    ),
};

/** Where roles run. A role that is left out is placed by the run itself. */
export const placementOptions = z
  .strictObject({
    trainer: z
      .strictObject({
        devices: devices.describe(
          "CUDA devices of the trainer's ranks, one after another. Where there are fewer than training.ranks, ranks take them in turn and share them, which is for trying a strategy out and slower than one rank. null: one each, from the first.",
        ),
        sleep: z
          .boolean()
          .default(false)
          .describe(
            "Whether the state of the optimizer is in host memory while a rollout lasts, so that engines on the same devices have its place. In synchronous runs.",
          ),
      })
      .prefault({})
      .describe("The ranks that train."),
    reference: z
      .strictObject({
        ...apart,
        sleep: z
          .boolean()
          .default(false)
          .describe("Whether its weights are in host memory, and on the device only while it measures a batch."),
      })
      .prefault({})
      .describe("The frozen model that KL is measured to."),
    critic: z
      .strictObject({
        ...apart,
        sleep: z
          .boolean()
          .default(false)
          .describe("Whether its weights and its optimizer are in host memory between training steps."),
      })
      .prefault({})
      .describe("The model that learns what rows are worth."),
    reward: z
      .strictObject({
        devices: devices.describe(
          "CUDA devices of the reward models, which take them in turn. null: the device that each names itself.",
        ),
        workers: z
          .enum(["threads", "processes"])
          .default("threads")
          .describe("Where reward models run: in threads of the run, or in a process each."),
        sleep: z
          .boolean()
          .default(false)
          .describe(
            "Whether their weights are in host memory while the trainer works, and on the device again for the first reply after it. In synchronous runs.",
          ),
      })
      .prefault({})
      .describe("Models that score replies."),
    engine: z
      .strictObject({
        devices: devices.describe("CUDA devices of the engines. null: that of the trainer."),
        count: z
          .int()
          .positive()
          .nullable()
          .default(null)
          .describe(
            "Number of engines that share the requests. null: as many as the devices that engines have are enough for.",
          ),
        tensor: z
          .int()
          .positive()
          .default(1)
          .describe(
            "Devices that split the model of one engine: heads and their cache, MLPs, experts and the vocabulary. For models that do not fit one device.",
          ),
        expert: z
          .int()
          .positive()
          .default(1)
          .describe(
            "Devices that have some of the experts each, of a mixture of experts in one engine. With tensor they are the same devices, and the two are equal: heads are split, and experts dealt out.",
          ),
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
