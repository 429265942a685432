/** The reward models of a run: each in a worker of its own, on the device that the placement gives it. */
import { logged, type WorkerFacts, type WorkLog } from "../flow/worker-facts.ts";
import type { RewardModelHost, RewardModelSource } from "../rewards/reward-model/reward-model-host.ts";
import { startRewardModel } from "../rewards/reward-model/start-reward-model.ts";
import { startInProcess } from "../workers/start-in-process.ts";
import { startInThread } from "../workers/start-in-thread.ts";
import { rewardDevices } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";

interface StartedModel {
  readonly model: RewardModelHost;
  readonly name: string;
  readonly device: string;
}

export class RewardModels {
  readonly #workers: "threads" | "processes";
  readonly #sleeps: boolean;
  readonly #devices: readonly string[] | null;
  readonly #models: StartedModel[] = [];
  readonly #log: WorkLog | undefined;
  #numStarted = 0;

  /** @param log told when one scores */
  constructor(config: Pick<RunConfig, "placement">, log?: WorkLog) {
    this.#log = log;
    const { workers, sleep } = config.placement.reward;
    this.#workers = workers;
    this.#sleeps = sleep;
    this.#devices = rewardDevices(config);
  }

  /** Starts one. They take the listed devices in turn. */
  readonly start = async (source: RewardModelSource): Promise<RewardModelHost> => {
    const devices = this.#devices ?? [source.device];
    const device = devices[this.#numStarted++ % devices.length]!;
    const name = `reward model ${this.#numStarted}`;
    const start = this.#workers === "processes" ? startInProcess : startInThread;
    const model = await startRewardModel({ ...source, device }, start);
    this.#models.push({ model, name, device });
    return {
      score: (...input) => logged(this.#log, name, "scoring", () => model.score(...input)),
      sleep: () => model.sleep(),
      memory: () => model.memory(),
      close: () => model.close(),
    };
  };

  /** Each of them, as it is now. */
  workers(): Promise<readonly WorkerFacts[]> {
    const runsIn = this.#workers === "processes" ? ("process" as const) : ("thread" as const);
    return Promise.all(
      this.#models.map(async ({ model, name, device }) => ({ name, runsIn, device, ...(await model.memory()) })),
    );
  }

  /** Call it before a training step: where the run file says so, they give their devices to the trainer. */
  async rest(): Promise<void> {
    if (this.#sleeps) await Promise.all(this.#models.map(({ model }) => model.sleep()));
  }
}
