/**
 * The names in a config as paths of this machine: models and data sets of the Hub are fetched, and what is on disk stays as it is.
 *
 * For a plan nothing large is fetched: it says what would be, and reads the shapes of models from their config.json.
 */
import { resolve } from "node:path";
import type { DataOptions } from "../data/data-options.ts";
import { chooseDatasetFiles } from "../data/dataset-files.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { type ChooseFiles, Hub, type HubFinding, type HubOptions } from "../hub/hub.ts";
import { hubNameOf, showHubName } from "../hub/hub-name.ts";
import { hubSettings } from "../hub/hub-settings.ts";
import { modelFiles, shapeFiles, tokenizerFiles } from "../hub/model-files.ts";
import { size } from "./plan-run.ts";
import type { RunEnvironment } from "./resolve-run.ts";
import type { RunConfig } from "./run-config.ts";

/** How names become paths. */
export interface HubPathOptions extends HubOptions {
  /** Whether to say what would be fetched in place of fetching it. */
  readonly isPlan?: boolean;
}

/** A data choice of any kind of run, as far as it names files. */
type NamedData = { readonly type: string; readonly path?: string | readonly string[] };

export class HubPaths {
  /** What was found, a line for each name. */
  readonly lines: string[] = [];
  /** The keys whose files a plan has left on the Hub. */
  readonly pending = new Set<string>();
  readonly #hub: Hub;
  readonly #isPlan: boolean;

  constructor(environment: RunEnvironment = process.env, { isPlan = false, ...options }: HubPathOptions = {}) {
    this.#hub = new Hub(hubSettings(environment), options);
    this.#isPlan = isPlan;
  }

  /** The folder or .gguf file of a model. `key` is what the user calls it. */
  async model<Path extends string | null>(path: Path, key: string): Promise<Path> {
    return path === null ? path : ((await this.#local("model", path, key, modelFiles)) as Path);
  }

  /** A folder with a tokenizer. */
  async tokenizer(path: string, key: string): Promise<string> {
    return this.#local("model", path, key, tokenizerFiles);
  }

  /** The same choice with paths of this machine. Mixtures and curricula hold others. */
  async data(source: DataOptions, key: string): Promise<DataOptions> {
    switch (source.type) {
      case "mix": {
        const parts = source.parts.map(async ({ ratio, source: inner }, i) => ({
          ratio,
          source: await this.data(inner, `${key}.parts.${i}.source`),
        }));
        return { ...source, parts: await Promise.all(parts) };
      }
      case "curriculum":
        return { ...source, source: await this.data(source.source, `${key}.source`) };
      case "env":
        return source;
      case "dataset":
        return this.files({ ...source, name: source.name ?? nameOf(source.path) }, key);
      case "jsonl":
      case "json":
      case "parquet":
      case "rows":
        return this.files(source, key);
    }
  }

  /** The same for a choice that holds no others. */
  async files<Choice extends NamedData>(source: Choice, key: string): Promise<Choice> {
    const { path } = source;
    if (path === undefined) return source;
    const local: string[] = [];
    for (const one of [path].flat())
      local.push(await this.#local("dataset", one, `${key}.path`, chooseRows(source, one)));
    if ([path].flat().every((one, i) => one === local[i])) return source;
    return { ...source, path: Array.isArray(path) ? local : local[0] };
  }

  async #local(kind: "model" | "dataset", path: string, key: string, choose: ChooseFiles): Promise<string> {
    const name = hubNameOf(path);
    if (name === null) return path;
    try {
      const found = await this.#hub.look(kind, name, choose);
      if (found.note !== null) this.lines.push(found.note);
      if (!this.#isPlan || found.missing.length === 0) return await this.#hub.fetch(found);
      this.pending.add(key);
      this.lines.push(wouldFetch(key, found));
      return kind === "model" ? await this.#shapeOnly(found) : found.path;
    } catch (cause) {
      if (!(cause instanceof RerollError)) throw cause;
      const message = `${key} names ${JSON.stringify(path)}, and ${resolve(path)} does not exist. On the Hub: ${cause.message}`;
      throw new RerollError(cause.code, message, cause.details, { cause });
    }
  }

  async #shapeOnly(found: HubFinding): Promise<string> {
    const shape = await shapeFiles(
      found.missing.map(({ path }) => path),
      async () => null,
    );
    return this.#hub.fetch({ ...found, missing: found.missing.filter(({ path }) => shape.includes(path)) });
  }
}

/** The config of a rollout run with paths of this machine. */
export async function localRun(config: RunConfig, paths: HubPaths): Promise<RunConfig> {
  const { model, critic, reference, rewards, distillation, data, validation, warmStart } = config;
  return {
    ...config,
    model: { ...model, path: await paths.model(model.path, "model.path") },
    reference: await paths.model(reference, "reference"),
    critic: { ...critic, path: await paths.model(critic.path, "critic.path") },
    rewards: await mapEntries(rewards, (reward, domain) => localReward(reward, `rewards.${domain}`, paths)),
    distillation: distillation && {
      ...distillation,
      teachers: await mapEntries(distillation.teachers, async (teacher, name) =>
        teacher.type === "folder"
          ? { ...teacher, path: await paths.model(teacher.path, `distillation.teachers.${name}.path`) }
          : teacher,
      ),
    },
    data: data && (await paths.data(data, "data")),
    validation: validation && {
      ...validation,
      data: validation.data && (await paths.data(validation.data, "validation.data")),
    },
    warmStart:
      warmStart?.type === "data"
        ? { ...warmStart, data: await paths.data(warmStart.data, "warmStart.data") }
        : warmStart,
  };
}

type Reward = RunConfig["rewards"][string];

/** Reward models, also inside of combinations. */
async function localReward(reward: Reward, key: string, paths: HubPaths): Promise<Reward> {
  const { type, path, parts } = reward as Reward & { path?: unknown; parts?: unknown };
  if (type === "reward-model" && typeof path === "string")
    return { ...reward, path: await paths.model(path, `${key}.path`) };
  if (type !== "combine" || !Array.isArray(parts)) return reward;
  const local = parts.map(async (part: { reward: Reward }, i) => ({
    ...part,
    reward: await localReward(part.reward, `${key}.parts.${i}.reward`, paths),
  }));
  return { ...reward, parts: await Promise.all(local) };
}

async function mapEntries<Value>(
  record: Readonly<Record<string, Value>>,
  map: (value: Value, name: string) => Promise<Value>,
): Promise<Record<string, Value>> {
  const entries: [string, Value][] = [];
  for (const [name, value] of Object.entries(record)) entries.push([name, await map(value, name)]);
  return Object.fromEntries(entries);
}

/** The files of a data set with its README, which says what they are; those of another type by their ending. */
function chooseRows(source: NamedData, path: string): ChooseFiles {
  return async (names, readText) => {
    if (source.type !== "dataset") return names.filter((name) => name.includes(`.${source.type}`));
    const { subset, split } = source as { readonly subset?: string; readonly split?: unknown };
    const part = { subset, split: typeof split === "string" ? split : "train" };
    const { files } = chooseDatasetFiles(path, names, await readText("README.md"), part);
    return [...files, ...names.filter((name) => name === "README.md")];
  };
}

function nameOf(path: string): string {
  return path.replace(/^hf:\/\//, "").replace(/@[^/]*/, "");
}

function wouldFetch(key: string, { name, missing, missingBytes, sha }: HubFinding): string {
  const files = missing.length === 1 ? "1 file" : `${missing.length} files`;
  return `${key}: would fetch ${size(missingBytes)} (${files}) of ${showHubName(name)}, commit ${sha.slice(0, 8)}`;
}
