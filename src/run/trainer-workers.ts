/** The workers of a trainer and of the roles apart from it: their names, what they do, and what they hold. */
import type { WorkerFacts, WorkerMemory, WorkLog } from "../flow/worker-facts.ts";
import { logged } from "../flow/worker-facts.ts";
import type { RankPlaces } from "../training/ranked-trainer.ts";
import type { Roles } from "../training/roles/role-host.ts";
import type { RolePlace } from "../training/roles/start-roles.ts";
import type { Trainer } from "../training/trainer.ts";
import { oneWay } from "../workers/luggage.ts";
import { withMethods } from "../workers/with-methods.ts";
import type { Placement } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";

type WorkerPlace = Omit<WorkerFacts, keyof WorkerMemory>;

/** Where each rank is, in the order of ranks. */
export function rankWorkers(
  { ranks, strategy }: Pick<RunConfig["training"], "ranks" | "strategy">,
  { device, trainerDevices }: Placement,
  places: RankPlaces | undefined,
): readonly WorkerPlace[] {
  const isInProcesses = strategy.in === "processes" || (strategy.in === "auto" && device.startsWith("cuda"));
  return Array.from({ length: ranks }, (_, rank) => {
    const name = `trainer rank ${rank}`;
    const other = rank === 0 ? undefined : places?.others[rank - 1];
    if (other !== undefined) return { name, runsIn: "machine", device: `${other.address} ${other.device}` };
    const runsIn = rank > 0 && isInProcesses ? "process" : "thread";
    return { name, runsIn, device: trainerDevices[rank] ?? device };
  });
}

/** Where the workers of some roles are, one for each device. */
export function roleWorkers(names: readonly string[], { devices, workers }: RolePlace): readonly WorkerPlace[] {
  const runsIn = workers === "processes" ? "process" : "thread";
  return devices.map((device, i) => ({ name: `${names.join(" and ")} ${i + 1}`, runsIn, device }));
}

/** A trainer that tells what its ranks do. */
export function loggedTrainer(trainer: Trainer, ranks: readonly WorkerPlace[], log: WorkLog): Trainer {
  return withMethods(trainer, {
    step: (batch, options) => {
      const phases = new Map<number, "measure" | "update">();
      const onPhase = oneWay((phase: "measure" | "update" | null, rank: number) => {
        const before = phases.get(rank);
        const { name } = ranks[rank]!;
        if (before !== undefined) log.end(name, before);
        if (phase !== null) log.begin(name, phase);
        if (phase === null) phases.delete(rank);
        else phases.set(rank, phase);
      });
      return trainer.step(batch, { ...options, onPhase }).finally(() => {
        // One that failed says nothing of its end.
        for (const rank of phases.keys()) onPhase(null, rank);
      });
    },
  });
}

/** Roles whose workers tell what they do, all of them at once. */
export function loggedRoles(roles: Roles, places: readonly WorkerPlace[], log: WorkLog): Roles {
  const all: WorkLog = {
    begin: (_, stage) => {
      for (const { name } of places) log.begin(name, stage);
    },
    end: (_, stage) => {
      for (const { name } of places) log.end(name, stage);
    },
  };
  return withMethods(roles, {
    measureReference: (rows) => logged(all, "", "measure", () => roles.measureReference(rows)),
    measureValues: (rows) => logged(all, "", "measure", () => roles.measureValues(rows)),
    update: (rows) => logged(all, "", "update", () => roles.update(rows)),
  });
}

/** Workers with what they say they hold, in the same order. */
export async function withMemory(
  places: readonly WorkerPlace[],
  { memory }: Pick<Trainer, "memory">,
): Promise<readonly WorkerFacts[]> {
  const held = await memory();
  return places.map((place, i) => ({ ...place, ...(held[i] ?? { roles: [], peakBytes: null }) }));
}

/** `memory/<role>`: the most that a worker holds of each role. */
export function memoryMetrics(workers: readonly WorkerFacts[]): Readonly<Record<string, number>> {
  const most: Record<string, number> = {};
  for (const { role, bytes } of workers.flatMap(({ roles }) => roles)) {
    const name = `memory/${role.replace(" ", "_")}`;
    most[name] = Math.max(most[name] ?? 0, bytes);
  }
  return most;
}
