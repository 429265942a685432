/** Workers of roles apart from the trainer, and a trainer that asks them in every step. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { SampleBatch } from "../../flow/token-sample.ts";
import type { Remote } from "../../workers/remote.ts";
import type { Start } from "../../workers/start.ts";
import { startInProcess } from "../../workers/start-in-process.ts";
import { startInThread } from "../../workers/start-in-thread.ts";
import { withMethods } from "../../workers/with-methods.ts";
import { onAll, startRanks } from "../ranked-trainer.ts";
import type { Trainer } from "../trainer.ts";
import type { OtherRoles } from "./other-roles.ts";
import type { Roles } from "./role-host.ts";
import type { RoleSource } from "./role-source.ts";

/** Where the workers of some roles are: one for each device in the list. */
export interface RolePlace {
  readonly devices: readonly string[];
  readonly workers: "threads" | "processes";
}

/** Starts them and brings them together: the rows of a batch are shared among them as `training.strategy` says. Resolves when all have their models. */
export async function startRoles(source: RoleSource, { devices, workers }: RolePlace): Promise<Roles> {
  const start = workers === "processes" ? startInProcess : startInThread;
  if (devices.length === 1) return (await startIn(start, { ...source, device: devices[0]! })).ask;
  const starters = devices.map((device) => ({ start, source: { ...source, device } }));
  const { ranks, store } = await startRanks(starters, startIn);
  const first = async <Result>(call: (rank: Remote<Roles>["ask"]) => Promise<Result>) => (await onAll(ranks, call))[0]!;
  return {
    measureReference: (rows) => first((rank) => rank.measureReference(rows)),
    measureValues: (rows) => first((rank) => rank.measureValues(rows)),
    teach: (targets) => first((rank) => rank.teach(targets)),
    update: (rows) => first((rank) => rank.update(rows)),
    apply: (outcome, factor) => first((rank) => rank.apply(outcome, factor)),
    report: () => first((rank) => rank.report()),
    saveState: (folder) => first((rank) => rank.saveState(folder)),
    loadState: (folder) => first((rank) => rank.loadState(folder)),
    memory: async () => (await onAll(ranks, (rank) => rank.memory())).flat(),
    close: async () => {
      await Promise.all(ranks.map((rank) => rank.close()));
      store.dispose();
    },
  };
}

async function startIn(start: Start, source: RoleSource, signal?: AbortSignal): Promise<Remote<Roles>> {
  const names = [...(source.reference === null ? [] : ["reference"]), ...(source.critic === null ? [] : ["critic"])];
  const lost = (how: string) => new RerollError("TRAINER_BROKEN", `The worker of the ${names.join(" and ")} ${how}.`);
  const worker = start<Roles>(new URL("role-worker", import.meta.url), source, { lost });
  signal?.addEventListener("abort", () => void worker.end(lost("was stopped")), { once: true });
  await worker.ready;
  return worker;
}

/** The roles of a run that are apart from its trainer. Two that share workers are the same object. */
interface ApartRoles {
  readonly reference: Roles | null;
  readonly critic: Roles | null;
}

/** A trainer with its other roles, as one: they measure while it does, and its state is that of all. */
export function withRoles(trainer: Trainer, { reference, critic }: ApartRoles): Trainer {
  const roles = [...new Set([reference, critic])].filter((one) => one !== null);
  return withMethods(trainer, {
    step: (batch, options) => trainer.step(batch, { ...options, others: askIn(batch, { reference, critic }) }),
    // Another process cannot lend what it has: the critic writes at once.
    saveState: async (folder, maxHeldBytes) => {
      const [held] = await Promise.all([trainer.saveState(folder, maxHeldBytes), critic?.saveState(folder)]);
      return held;
    },
    loadState: async (folder) => void (await Promise.all([trainer.loadState(folder), critic?.loadState(folder)])),
    close: async () => void (await Promise.all([trainer.close(), ...roles.map((one) => one.close())])),
  });
}

/** Asks at once, so that others compute while the trainer does. */
function askIn({ samples }: SampleBatch, { reference, critic }: ApartRoles): OtherRoles {
  const rows = samples.map(({ tokenIds, lossMask }) => ({ tokenIds, lossMask }));
  const logprobs = reference?.measureReference(rows);
  const values = critic?.measureValues(rows);
  // Whoever asks hears of it; a trainer that fails first does not ask.
  for (const one of [logprobs, values]) one?.catch(() => {});
  return {
    ...(logprobs !== undefined && { referenceLogprobs: () => logprobs }),
    ...(critic !== null &&
      values !== undefined && {
        values: () => values,
        critic: {
          teach: (targets) => critic.teach(targets),
          update: (updated) => critic.update(updated),
          apply: (outcome, factor) => critic.apply(outcome, factor),
          report: () => critic.report(),
        },
      }),
  };
}
