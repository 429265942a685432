/** Run files of all kinds behind one interface: what commands ask of a run before they start it. */
import { RerollError } from "../errors/reroll-error.ts";
import { type Launch, readLaunch } from "../machines/launch.ts";
import type { explainRun } from "../run/explain-run.ts";
import type { HubPathOptions } from "../run/hub-paths.ts";
import type { RawRun } from "../run/load-run-file.ts";
import type { RunTrainingOptions } from "../run/run-training.ts";

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A run file of one kind, as the command sees all of them. */
interface OpenRunFile {
  /** Every key with its value and where it comes from; nothing is checked beyond that. */
  resolve(): Promise<Parameters<typeof explainRun>[0] & { readonly config: NamedRun }>;
  /** Checks everything. */
  prepare(): Promise<ReadyRun>;
}

/** What runs of all kinds are called, and where their folders are. */
interface NamedRun {
  readonly name: string;
  readonly tracking: { readonly folder: string };
}

/** A run that is checked and may start. */
interface ReadyRun {
  /** What the plan says. */
  readonly lines: readonly string[];
  readonly runsFolder: string;
  train(options: RunTrainingOptions): Promise<unknown>;
}

/** Tells the kinds apart. Imports only what the kind needs. */
export async function openRunFile(
  file: RawRun,
  sets: readonly string[],
  environment: Environment,
  hub: HubPathOptions,
): Promise<OpenRunFile> {
  const { isControlRun } = await import("../control/run/prepare-control.ts");
  if (isControlRun(file)) return openControl(file, sets, environment);
  const { isTuningRun } = await import("../tuning/prepare-tuning.ts");
  return isTuningRun(file) ? openTuning(file, sets, environment, hub) : openRollout(file, sets, environment, hub);
}

async function openRollout(
  file: RawRun,
  sets: readonly string[],
  environment: Environment,
  hub: HubPathOptions,
): Promise<OpenRunFile> {
  const [{ resolveRun }, { parseOverride }, { prepareRun }, { runTraining }] = await Promise.all([
    import("../run/resolve-run.ts"),
    import("../run/apply-overrides.ts"),
    import("../run/prepare-run.ts"),
    import("../run/run-training.ts"),
  ]);
  return {
    resolve: async () => resolveRun(file, sets.map(parseOverride), environment),
    prepare: async () => {
      const run = await prepareRun(file, sets, environment, hub);
      const { plan, config } = run;
      return { lines: plan.lines, runsFolder: config.tracking.folder, train: (options) => runTraining(run, options) };
    },
  };
}

async function openTuning(
  file: RawRun,
  sets: readonly string[],
  environment: Environment,
  hub: HubPathOptions,
): Promise<OpenRunFile> {
  const { prepareTuning, resolveTuning, tuningDownloads } = await import("../tuning/prepare-tuning.ts");
  const { runTuning } = await import("../tuning/run-tuning.ts");
  return {
    resolve: async () => resolveTuning(file, sets, environment),
    prepare: async () => {
      const downloads = hub.isPlan === true ? await tuningDownloads(file, sets) : null;
      if (downloads !== null) return planOnly(downloads);
      const run = await prepareTuning(file, sets, environment, hub);
      const { lines, config } = run;
      return { lines, runsFolder: config.tracking.folder, train: (options) => runTuning(run, options) };
    },
  };
}

async function openControl(file: RawRun, sets: readonly string[], environment: Environment): Promise<OpenRunFile> {
  expectAlone(readLaunch(environment));
  const { planControl, resolveAnyControl } = await import("../control/run/prepare-control.ts");
  const { runControl } = await import("../control/run/run-control.ts");
  const run = resolveAnyControl(file, sets, environment);
  const { config } = run;
  return {
    resolve: async () => run,
    prepare: async () => ({
      lines: planControl(config),
      runsFolder: config.tracking.folder,
      train: (options) => runControl(config, sets, options),
    }),
  };
}

function expectAlone(launch: Launch | null): void {
  if (launch === null) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `Control runs train in one process, and a launcher or --listen asks for ${launch.worldSize}. Start it alone.`,
  );
}

/** A run that is looked at and not started. */
function planOnly(lines: readonly string[]): ReadyRun {
  return { lines, runsFolder: "", train: async () => {} };
}
