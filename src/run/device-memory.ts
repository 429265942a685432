/**
 * What each device of a run holds, by role, where its placement puts them. Pure.
 *
 * The device of the trainer's first rank comes first: it has the trainer, every role that is with it, and what else is placed there.
 */
import { type MemoryFacts, type MemoryPart, measuringMemory, microbatchTokens, NO_ROLES } from "./estimate-memory.ts";
import { deviceName, engineDevices, type Placement } from "./machine.ts";
import { estimateRankMemory, roleStrategy } from "./rank-memory.ts";
import type { RunConfig } from "./run-config.ts";

/** The part of a placement that decides it. */
export type RolePlaces = Pick<Placement, "device" | "trainerDevices" | "engines" | "reference" | "critic">;

interface DeviceMemory {
  readonly device: string;
  readonly parts: readonly MemoryPart[];
}

/** Every device with something on it. `facts.roles` name the devices of reward models. */
export function deviceMemory(config: RunConfig, facts: MemoryFacts, places: RolePlaces): readonly DeviceMemory[] {
  const { roles = NO_ROLES } = facts;
  const ofRank = estimateRankMemory(config, { ...facts, roles: { ...roles, rewardModels: [] } });
  const at = (device: string) => (one: string) => deviceName(one) === deviceName(device);
  const isWithTrainer = ({ owner }: MemoryPart) =>
    owner !== "engine" && !(owner === "reference" && places.reference) && !(owner === "critic" && places.critic);
  const apart = (["reference", "critic"] as const).flatMap((role) => {
    const place = places[role];
    if (place === null) return [];
    const parts = apartMemory(role, config, facts, place.devices.length);
    return place.devices.map((device) => ({ device, parts }));
  });
  const engines = places.engines.flatMap(engineDevices);
  const engineParts = ofRank.filter(({ owner }) => owner === "engine");
  const partsOn = (device: string): readonly MemoryPart[] => {
    const numRanks = places.trainerDevices.filter(at(device)).length;
    const isFirst = at(device)(places.device);
    return [
      ...ofRank.filter(isWithTrainer).flatMap((part) => {
        const count = isOnEveryRank(part) ? numRanks : isFirst ? 1 : 0;
        return count === 0 ? [] : [{ ...part, bytes: part.bytes * count }];
      }),
      ...apart.filter((one) => at(device)(one.device)).flatMap(({ parts }) => parts),
      ...estimateRankMemory(config, {
        ...facts,
        roles: { ...roles, rewardModels: roles.rewardModels.filter((model) => at(device)(model.device)) },
      }).filter(({ owner }) => owner === "reward model"),
      ...engines.filter(at(device)).flatMap(() => engineParts),
    ];
  };
  const devices = [
    ...places.trainerDevices,
    ...apart.map(({ device }) => device),
    ...roles.rewardModels.map(({ device }) => device),
    ...engines,
  ].filter((device, i, all) => all.findIndex(at(device)) === i);
  return devices.map((device) => ({ device, parts: partsOn(device) })).filter(({ parts }) => parts.length > 0);
}

/** What every rank of a trainer takes. The rest is there once: what is gathered for engines, and the engines of past versions. */
export function isOnEveryRank({ owner, what }: MemoryPart): boolean {
  if (what === "weights gathered for engines") return false;
  return owner === "trainer" || owner === "critic" || owner === "reference" || owner === "teacher";
}

/** The roles of a run that are with its trainer and could have devices of their own. */
export function movableRoles(
  { model, reference, algorithm }: RunConfig,
  { needsReference, hasCritic }: Pick<MemoryFacts, "needsReference" | "hasCritic">,
): readonly ("reference" | "critic")[] {
  return [
    // The base of adapters is the policy without them, and takes nothing.
    ...(needsReference && (reference !== null || model.lora === null) ? (["reference"] as const) : []),
    // In bypass mode a critic needs what the policy says within each update.
    ...(hasCritic && !("bypass" in algorithm && algorithm.bypass) ? (["critic"] as const) : []),
  ];
}

/** What one of the workers of a role apart from the trainer takes. */
export function apartMemory(
  role: "reference" | "critic",
  config: RunConfig,
  facts: MemoryFacts,
  numWorkers: number,
): readonly MemoryPart[] {
  const { training } = config;
  const strategy = roleStrategy(training.strategy, numWorkers);
  const run = { ...config, training: { ...training, ranks: numWorkers, strategy } };
  // A reference elsewhere has the weights of the base even where one with the trainer would be the policy without its adapters.
  const whole = role === "reference" ? { ...run, model: { ...run.model, lora: null, quantization: null } } : run;
  const own = estimateRankMemory(whole, facts).filter(({ owner }) => owner === role);
  return role === "reference" ? [...own, measuringMemory(facts, microbatchTokens(config))] : own;
}
