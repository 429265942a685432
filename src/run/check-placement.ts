/** Whether the placement of a run goes with the rest of it. */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { namedRewardModels } from "./check-files.ts";
import { listDevices } from "./placement-options.ts";
import type { RunConfig } from "./run-config.ts";

/** The first contradiction, as a sentence; null where there is none. */
export function checkPlacement(config: RunConfig, recipe: Recipe): string | null {
  for (const check of CHECKS) {
    const problem = check(config, recipe);
    if (problem !== null) return problem;
  }
  return null;
}

type Check = (config: RunConfig, recipe: Recipe) => string | null;

const CHECKS: readonly Check[] = [
  ({ device, placement: { trainer } }) =>
    trainer.devices !== null && device !== "auto" && device !== "cuda"
      ? `placement.trainer.devices is ${JSON.stringify(trainer.devices)}, and device is ${JSON.stringify(device)}. Leave device out.`
      : null,
  ({ training, placement: { trainer } }) =>
    trainer.devices !== null && listDevices(trainer.devices).length > training.ranks
      ? `placement.trainer.devices has ${listDevices(trainer.devices).length} devices for ${training.ranks} ranks: got ${JSON.stringify(trainer.devices)}. Set training.ranks to the number of devices, or list fewer.`
      : null,
  checkEngineSplit,
  (config, { type, needs }) =>
    isPlaced(config, "reference") && !needs.includes("referenceLogprobs_BT")
      ? `placement.reference is set, and ${type} with these options measures no KL, so there is no reference. Leave placement.reference out, or set algorithm.klLoss or klReward.`
      : null,
  (config, { type, hasCritic }) =>
    isPlaced(config, "critic") && !hasCritic
      ? `placement.critic is set, and ${type} has no critic. Leave placement.critic out, or take a recipe that has one, such as ppo.`
      : null,
  (config) => checkWorkers(config, "reference") ?? checkWorkers(config, "critic"),
  (config, { correctsInLoss }) =>
    isApart(config, "critic") && correctsInLoss
      ? "placement.critic puts the critic apart from the trainer, and algorithm.bypass lets the policy of each update say which tokens count. Leave placement.critic or bypass out."
      : null,
  (config) =>
    isApart(config, "reference") && config.model.quantization !== null && config.reference === null
      ? `placement.reference puts the reference apart from the trainer, and model.quantization is ${JSON.stringify(config.model.quantization)}: the reference is the quantized policy without its adapters. Leave placement.reference out, or set reference to a folder.`
      : null,
  ({ loop, placement }) => {
    const sleeper = (["trainer", "reward"] as const).find((role) => placement[role].sleep);
    return sleeper !== undefined && loop.type !== "sync"
      ? `placement.${sleeper}.sleep is true, and loop.type is ${JSON.stringify(loop.type)}: rollout and training take turns in synchronous runs only. Leave sleep out, or set loop.type to "sync".`
      : null;
  },
  ({ training: { strategy }, placement }) => {
    const sleeper = (["trainer", "critic"] as const).find((role) => placement[role].sleep);
    return sleeper !== undefined && (strategy.zero > 0 || strategy.offload !== "none")
      ? `placement.${sleeper}.sleep is true, and training.strategy shards or offloads the optimizer, whose parts stay where they are. Leave sleep out, or set zero to 0 and offload to "none".`
      : null;
  },
  ({ training: { strategy }, placement: { reference } }) =>
    reference.sleep && strategy.zero === 3
      ? "placement.reference.sleep is true, and training.strategy.zero is 3, which keeps a part of its weights on each rank. Leave sleep out, or lower zero."
      : null,
  ({ rewards, placement }) => {
    const { devices } = placement.reward;
    const placed = namedRewardModels(rewards).find(({ device }) => device !== "cpu");
    return devices !== null && placed !== undefined
      ? `placement.reward.devices is ${JSON.stringify(devices)}, and ${placed.key.replace(/path$/, "device")} is ${JSON.stringify(placed.device)}. Leave one of them out.`
      : null;
  },
];

type RoleName = "reference" | "critic";

function isPlaced({ placement }: RunConfig, role: RoleName): boolean {
  return isApart({ placement }, role) || placement[role].sleep;
}

/** Whether a role may have workers of its own. */
function isApart({ placement }: Pick<RunConfig, "placement">, role: RoleName): boolean {
  const { devices, count, workers } = placement[role];
  return devices !== null || count !== null || workers !== null;
}

/** Several workers are spread as the trainer is. */
function checkWorkers({ placement, training }: RunConfig, role: RoleName): string | null {
  const { devices, count } = placement[role];
  const numWorkers = count ?? (devices === null ? 1 : listDevices(devices).length);
  const { tensor, context, expert } = training.strategy;
  const partners = Math.max(tensor * context, context * expert);
  if (numWorkers === 1 || (numWorkers % (tensor * context) === 0 && numWorkers % (context * expert) === 0)) return null;
  return `placement.${role} has ${numWorkers} workers, which training.strategy spreads in groups of ${partners}. Give it one worker, ${partners}, or a multiple of it.`;
}

/** Whether engines that are split over devices go with the rest of the run. */
function checkEngineSplit({ placement, model, exact, engine: { remote } }: RunConfig): string | null {
  const { tensor, expert, devices, workers } = placement.engine;
  const numRanks = Math.max(tensor, expert);
  if (numRanks === 1) return null;
  const [key, given] = tensor > 1 ? ["tensor", tensor] : ["expert", expert];
  const split = `placement.engine.${key} is ${given}`;
  if (tensor > 1 && expert > 1 && tensor !== expert)
    return `placement.engine has tensor ${tensor} and expert ${expert}: both are over the same devices. Set both to ${numRanks}, or one of them to 1.`;
  if (remote !== null)
    return `${split}, and engine.remote is set: the run has no engines of its own. Leave one of them out, and start the servers as they are to be split.`;
  if (workers === "threads")
    return `${split}, and placement.engine.workers is "threads": the ranks of an engine are processes. Leave workers out.`;
  if (model.quantization !== null)
    return `${split}, and model.quantization is ${JSON.stringify(model.quantization)}: quantized weights are not split. Leave one of them out.`;
  if (exact)
    return `${split}, and exact is true: sums over devices are added up in another order than the trainer's. Leave one of them out.`;
  const listed = devices === null ? numRanks : listDevices(devices).length;
  if (listed % numRanks !== 0 && numRanks % listed !== 0)
    return `placement.engine.devices has ${listed} devices for engines of ${numRanks} each: got ${JSON.stringify(devices)}. List a multiple of ${numRanks}.`;
  return null;
}
