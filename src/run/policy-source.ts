/** What every trainer of a run's policy is started with, whatever it trains it on. */
import type { Placement } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";

/** The keys of a run file that say so. */
interface PolicyConfig<Training> {
  readonly model: Pick<RunConfig["model"], "lora" | "quantization">;
  readonly training: Training;
  readonly seed: number;
}

/** Where the policy is, what is trained of it, and how. */
export function policySource<Training>(
  { model, training, seed }: PolicyConfig<Training>,
  {
    device,
    trainerDevices,
    dtype,
    trainingThreads,
  }: Pick<Placement, "device" | "trainerDevices" | "dtype" | "trainingThreads">,
) {
  return {
    ...{ device, devices: trainerDevices, dtype, numThreads: trainingThreads },
    quantization: model.quantization ?? undefined,
    lora: model.lora,
    training,
    seed,
  };
}
