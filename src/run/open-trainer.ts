/** From config to a trainer, with the roles that have workers apart from its own. */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import type { RecipeChoice } from "../algorithms/recipes/table.ts";
import type { WorkerFacts, WorkLog } from "../flow/worker-facts.ts";
import type { RankPlaces } from "../training/ranked-trainer.ts";
import type { Roles } from "../training/roles/role-host.ts";
import type { RoleSource } from "../training/roles/role-source.ts";
import { type RolePlace, startRoles, withRoles } from "../training/roles/start-roles.ts";
import { startTrainer } from "../training/start-trainer.ts";
import type { Trainer } from "../training/trainer.ts";
import type { TrainerSource } from "../training/trainer-source.ts";
import { stepArithmetic } from "./batch-arithmetic.ts";
import { readShape } from "./check-files.ts";
import { openAll } from "./engine-parts.ts";
import type { Placement } from "./machine.ts";
import { teacherSources } from "./open-teachers.ts";
import { policySource } from "./policy-source.ts";
import { roleStrategy } from "./rank-memory.ts";
import type { RunConfig } from "./run-config.ts";
import type { StartingWeights } from "./starting-weights.ts";
import { loggedRoles, loggedTrainer, rankWorkers, roleWorkers, withMemory } from "./trainer-workers.ts";

interface TrainerPlace {
  readonly start: StartingWeights;
  /** The model that the run file names, with its tokenizer. */
  readonly modelFolder: string;
  readonly placement: Placement;
  /** Other machines that its ranks run on. */
  readonly places: RankPlaces | undefined;
  /** Told what each worker does. */
  readonly log: WorkLog;
}

/** A trainer that asks the roles apart from it by itself, and the workers that all of it is made of. */
interface OpenedTrainer {
  readonly trainer: Trainer;
  /** Each of them, as it is now. */
  workers(): Promise<readonly WorkerFacts[]>;
}

/** Starts all of them together. Where one fails, the others are closed. */
export async function openTrainer(config: RunConfig, recipe: Recipe, place: TrainerPlace): Promise<OpenedTrainer> {
  const { placement, places, log } = place;
  const source = trainerSource(config, recipe, place);
  const groups = groupRoles(rolesApart(recipe, placement));
  // Before the first of them starts: what throws here leaves nothing behind.
  const roleSources = groups.map((group) => roleSource(config, source, group, place));
  const starting = startTrainer(source, places);
  const rolesStarting = groups.map((group, i) => startRoles(roleSources[i]!, group.place));
  await openAll<Trainer | Roles>([starting, ...rolesStarting]);
  const ranks = rankWorkers(config.training, placement, places);
  const trainer = loggedTrainer(await starting, ranks, log);
  const others = (await Promise.all(rolesStarting)).map((started, i) => {
    const { names, place: rolePlace } = groups[i]!;
    const workers = roleWorkers(names, rolePlace);
    return { names, workers, roles: loggedRoles(started, workers, log) };
  });
  const rolesOf = (name: RoleName) => others.find(({ names }) => names.includes(name))?.roles ?? null;
  const apart = { reference: rolesOf("reference"), critic: rolesOf("critic") };
  const workers = async () => {
    const asked = [withMemory(ranks, trainer), ...others.map((one) => withMemory(one.workers, one.roles))];
    return (await Promise.all(asked)).flat();
  };
  return { trainer: others.length === 0 ? trainer : withRoles(trainer, apart), workers };
}

/** Whether something starts from the policy as one whole model, adapters added in. */
export function needsWholeStart(recipe: Recipe, placement: Placement): boolean {
  return recipe.hasCritic || rolesApart(recipe, placement).some(({ name }) => name === "reference");
}

type RoleName = "reference" | "critic";

interface ApartRole {
  readonly name: RoleName;
  readonly place: RolePlace;
}

/** The roles of a run that are not with its trainer. */
function rolesApart({ needs, hasCritic }: Recipe, { reference, critic }: Placement): readonly ApartRole[] {
  return [
    ...(reference !== null && needs.includes("referenceLogprobs_BT")
      ? [{ name: "reference" as const, place: reference }]
      : []),
    ...(critic !== null && hasCritic ? [{ name: "critic" as const, place: critic }] : []),
  ];
}

/** Roles that share workers. */
interface RoleGroup {
  readonly names: readonly RoleName[];
  readonly place: RolePlace;
}

/** Roles in the same place share their workers. */
function groupRoles(roles: readonly ApartRole[]): readonly RoleGroup[] {
  const keyOf = ({ place: { workers, devices } }: ApartRole) => [workers, ...devices].join();
  const firsts = roles.filter((role, i) => roles.findIndex((one) => keyOf(one) === keyOf(role)) === i);
  return firsts.map((first) => ({
    names: roles.filter((role) => keyOf(role) === keyOf(first)).map(({ name }) => name),
    place: first.place,
  }));
}

function trainerSource(config: RunConfig, recipe: Recipe, { start, modelFolder, placement }: TrainerPlace) {
  const { numUpdates: perStep } = stepArithmetic(config, recipe.numEpochs);
  const isApart = new Set(rolesApart(recipe, placement).map(({ name }) => name));
  const needsReference = recipe.needs.includes("referenceLogprobs_BT") && !isApart.has("reference");
  const ownReference = config.model.lora === null ? start.modelFolder : "base";
  const { warmupUpdates } = config.critic;
  const source: TrainerSource = {
    modelFolder: start.modelFolder,
    tokenizerFolder: modelFolder,
    ...policySource(config, placement),
    ...(start.adapters !== undefined && { adapters: start.adapters }),
    reference: needsReference ? (config.reference ?? ownReference) : null,
    critic: recipe.hasCritic && !isApart.has("critic") ? criticSource(config, start) : null,
    ...(isApart.size > 0 && {
      elsewhere: {
        hasReference: isApart.has("reference"),
        criticWarmupUpdates: isApart.has("critic") ? warmupUpdates : null,
      },
    }),
    sleeping: sleepingParts(config.placement),
    ...(config.distillation !== null && { distillation: teacherSources(config.distillation) }),
    ...(config.reflection !== null && {
      lessons: { divergence: config.reflection.divergence, coefficient: config.reflection.coefficient },
    }),
    // As plain data: a recipe holds functions, and is put together again in the thread.
    algorithm: config.algorithm as RecipeChoice,
    length: { numUpdates: perStep * config.loop.steps, updatesPerRolloutStep: perStep },
    temperature: config.rollout.sampling.temperature,
    isExact: config.exact,
  };
  return source;
}

function criticSource({ critic: { path, optimizer, warmupUpdates } }: RunConfig, { wholeFolder }: StartingWeights) {
  return { modelFolder: path ?? wholeFolder, optimizer, warmupUpdates };
}

function sleepingParts({ trainer, reference, critic }: RunConfig["placement"]) {
  return [
    ...(reference.sleep ? ["reference" as const] : []),
    ...(critic.sleep ? ["critic" as const] : []),
    ...(trainer.sleep ? ["optimizer" as const] : []),
  ];
}

/** What the workers of some roles are started with: as the trainer would have them. */
function roleSource(
  config: RunConfig,
  { device, dtype, algorithm, temperature, numThreads }: TrainerSource,
  { names, place }: RoleGroup,
  { start }: TrainerPlace,
): RoleSource {
  const { reference, critic } = config.placement;
  const isOnGpu = device.startsWith("cuda");
  return {
    ...{ device, dtype, algorithm, temperature },
    reference: names.includes("reference") ? (config.reference ?? start.wholeFolder) : null,
    critic: names.includes("critic") ? criticSource(config, start) : null,
    training: { ...config.training, strategy: roleStrategy(config.training.strategy, place.devices.length) },
    numScores: readShape(start.modelFolder, "model.path").vocabSize,
    referenceSleeps: isOnGpu && reference.sleep,
    criticSleeps: isOnGpu && critic.sleep,
    isExact: config.exact,
    ...(numThreads !== undefined && { numThreads }),
  };
}
