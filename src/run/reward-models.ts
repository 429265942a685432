/** The reward models of a run: each in a worker of its own, on the device that the placement gives it. */
import type { RewardModelHost, RewardModelSource } from "../rewards/reward-model/reward-model-host.ts";
import { startRewardModel } from "../rewards/reward-model/start-reward-model.ts";
import { startInProcess } from "../workers/start-in-process.ts";
import { startInThread } from "../workers/start-in-thread.ts";
import { rewardDevices } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";

export class RewardModels {
  readonly #workers: "threads" | "processes";
  readonly #sleeps: boolean;
  readonly #devices: readonly string[] | null;
  readonly #models: RewardModelHost[] = [];
  #numStarted = 0;

  constructor(config: Pick<RunConfig, "placement">) {
    const { workers, sleep } = config.placement.reward;
    this.#workers = workers;
    this.#sleeps = sleep;
    this.#devices = rewardDevices(config);
  }

  /** Starts one. They take the listed devices in turn. */
  readonly start = async (source: RewardModelSource): Promise<RewardModelHost> => {
    const devices = this.#devices ?? [source.device];
    const device = devices[this.#numStarted++ % devices.length]!;
    const start = this.#workers === "processes" ? startInProcess : startInThread;
    const model = await startRewardModel({ ...source, device }, start);
    this.#models.push(model);
    return model;
  };

  /** Call it before a training step: where the run file says so, they give their devices to the trainer. */
  async rest(): Promise<void> {
    if (this.#sleeps) await Promise.all(this.#models.map((model) => model.sleep()));
  }
}
