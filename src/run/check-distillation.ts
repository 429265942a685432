/** Finds teachers and reflections that cannot work with the rest of a run. Pure; each check says what to change. */
import { didYouMean } from "../errors/nearest-name.ts";
import type { DistillationOptions } from "./distillation-options.ts";
import type { RunConfig } from "./run-config.ts";

/** @param domains those of the data, null where only the rows know theirs */
export function checkDistillation(config: RunConfig, domains: readonly (string | null)[]): string | null {
  const { distillation } = config;
  if (distillation === null) return null;
  for (const check of CHECKS) {
    const problem = check(distillation, config, domains);
    if (problem !== null) return problem;
  }
  return null;
}

type Check = (options: DistillationOptions, config: RunConfig, domains: readonly (string | null)[]) => string | null;

const CHECKS: readonly Check[] = [
  ({ teachers }) =>
    Object.keys(teachers).length === 0
      ? 'distillation.teachers is empty. Add one, as in teachers: { default: { type: "folder", path: "models/teacher" } }.'
      : null,
  ({ teachers }, { envs }, domains) => {
    if (domains.includes(null)) return null;
    const known = ["default", ...new Set([...Object.keys(envs), ...domains.map(String)])];
    const stray = Object.keys(teachers).find((name) => !known.includes(name));
    return stray === undefined
      ? null
      : `distillation.teachers has ${JSON.stringify(stray)}, and the run has no such domain: it has ${known.slice(1).join(", ") || "none with a name"}.${didYouMean(stray, known)} Name a teacher by its domain, or default.`;
  },
  ({ teachers, form }) => {
    const [name] = Object.entries(teachers).find(([, { type }]) => type === "server") ?? [];
    return name !== undefined && form === "full"
      ? `distillation.form is "full", and distillation.teachers.${name} is a server, which says the log-probs of sampled tokens and not whole distributions. Set form to "advantage", or give the teacher as a folder.`
      : null;
  },
  ({ teachers }, { rollout }) => {
    const [name] = Object.entries(teachers).find(([, { type }]) => type === "server") ?? [];
    return name !== undefined && rollout.sampling.temperature !== 1
      ? `distillation.teachers.${name} is a server, whose log-probs are at temperature 1, and rollout.sampling.temperature is ${rollout.sampling.temperature}. Set it to 1, or give the teacher as a folder.`
      : null;
  },
  ({ teachers }, { agent }) => {
    const [name] = Object.entries(teachers).find(([, { context }]) => context !== null) ?? [];
    return name !== undefined && agent !== null
      ? `distillation.teachers.${name}.context needs an environment or rows of data, whose prompts the run writes itself: an agent writes its own. Leave context or agent out.`
      : null;
  },
  ({ rewards, coefficient }) =>
    !rewards && coefficient === 0
      ? "distillation.rewards is false and distillation.coefficient is 0: nothing would be learned from. Raise the coefficient, or set rewards to true."
      : null,
  ({ rewards }, { rollout, algorithm }) => {
    const { dropEqualRewards, meanReward } = rollout.filter;
    const filter =
      (dropEqualRewards && "rollout.filter.dropEqualRewards") ||
      (meanReward !== null && "rollout.filter.meanReward") ||
      (algorithm.dropsFlatGroups === true && "algorithm.dropsFlatGroups");
    return !rewards && filter
      ? `distillation.rewards is false, and ${filter} leaves groups out by their rewards, from which the teachers could be learned. Turn it off.`
      : null;
  },
];

/** Second tries need episodes that the run plays itself, and groups that are kept when all of them fail. */
export function checkReflection({ reflection, agent, rollout }: RunConfig): string | null {
  if (reflection === null) return null;
  if (agent !== null)
    return "reflection needs an environment or rows of data, whose prompts the run writes itself: an agent writes its own. Leave reflection or agent out.";
  if (rollout.filter.dropEqualRewards)
    return "rollout.filter.dropEqualRewards drops groups in which every try failed, and with them the second tries that reflection is for. Turn one of them off.";
  if (reflection.perGroup > rollout.groupSize)
    return `reflection.perGroup must be at most rollout.groupSize: got ${reflection.perGroup} and ${rollout.groupSize}.`;
  return null;
}
