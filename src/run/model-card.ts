/**
 * The README.md of a model that a run made, as the Hub reads it: what it started from, how it was trained, on what, and what was measured.
 *
 * Everything comes from the run's folder; what is not recorded there is not claimed.
 */
import { stringify } from "yaml";
import { redact } from "../errors/redact.ts";
import { snapshotOrigin } from "../hub/hub-cache.ts";
import { parseHubName } from "../hub/hub-name.ts";
import type { ReadRun } from "../tracking/read-run.ts";
import type { MetricRecord } from "../tracking/run-record.ts";
import { leavesOf } from "./leaves-of.ts";

interface CardOptions {
  /** The repository that the card is for, as in owner/name. */
  readonly repo: string;
  /** null for a model that no run of reroll made. */
  readonly run: ReadRun | null;
  /** The step of the weights; null where it is not known. */
  readonly step: number | null;
  readonly isAdapter: boolean;
}

/** The text of the card. */
export function modelCard({ repo, run, step, isAdapter }: CardOptions): string {
  const config = (run?.config ?? {}) as RecordedConfig;
  const base = hubName(config.model?.path);
  const datasets = [...new Set(dataPaths(config).flatMap((path) => hubName(path) ?? []))];
  const recipe = run?.info.recipe;
  const head = {
    ...(base !== null && { base_model: base }),
    ...(datasets.length > 0 && { datasets }),
    library_name: isAdapter ? "peft" : "transformers",
    pipeline_tag: "text-generation",
    tags: ["reroll", ...(recipe === undefined ? [] : [recipe])],
  };
  return [
    `---\n${stringify(head)}---\n`,
    `# ${repo.split("/")[1]}\n`,
    ...(run === null ? ["Written with reroll.\n"] : runSections(run, config, step)),
  ].join("\n");
}

/** The parts of a recorded config that a card speaks of. */
interface RecordedConfig {
  readonly model?: { readonly path?: string | null; readonly preset?: string | null; readonly lora?: object | null };
  readonly data?: object | null;
  readonly validation?: { readonly metric?: string } | null;
}

function runSections(run: ReadRun, config: RecordedConfig, step: number | null): string[] {
  const { info, metrics } = run;
  const { path, preset, lora } = config.model ?? {};
  const start = hubName(path) ?? (path ? "a local model" : `a small model from scratch (preset ${preset})`);
  const data = dataPaths(config).map((one) => hubName(one) ?? "a local file");
  const atStep = step === null ? "" : ` The weights are those of step ${step}.`;
  return [
    `Trained with reroll ${info.version} from ${start}${lora ? " with LoRA adapters" : ""}, by \`${info.recipe}\`.${atStep}\n`,
    "| | |\n|---|---|",
    `| recipe | ${info.recipe} |`,
    `| start | ${start} |`,
    ...(data.length === 0 ? [] : [`| data | ${[...new Set(data)].join(", ")} |`]),
    `| steps | ${step ?? info.numSteps} of ${info.numSteps} |`,
    `| seed | ${info.seed} |\n`,
    ...metricTable("validation", lastOf(metrics, "validation", step)),
    ...metricTable("train", lastOf(metrics, "train", step)),
    "## Run file\n",
    "Every key with its value, defaults included:\n",
    `\`\`\`\n${configLines(run.config)}\n\`\`\`\n`,
  ];
}

/** The last record of a kind up to the step. */
function lastOf(metrics: readonly MetricRecord[], kind: string, step: number | null): MetricRecord | undefined {
  return metrics.filter((record) => record.kind === kind && (step === null || record.step <= step)).at(-1);
}

function metricTable(kind: string, record: MetricRecord | undefined): string[] {
  const rows = Object.entries(record?.metrics ?? {}).filter(([name]) => !/^(time|memory)\//.test(name));
  if (record === undefined || rows.length === 0) return [];
  const lines = rows.map(([name, value]) => `| ${name} | ${Number(value.toPrecision(5))} |`);
  return [`## Metrics of ${kind}, step ${record.step}\n`, "| metric | value |\n|---|---|", ...lines, ""];
}

/** Paths of this machine say nothing to others, and names of people to too many. */
function configLines(config: unknown): string {
  const leaves = typeof config === "object" && config !== null ? leavesOf(redact(config) as object) : [];
  return leaves
    .filter(({ key }) => key !== "tracking.folder")
    .map(({ key, value }) => `${key} = ${JSON.stringify(value, (_, inner) => shownPath(inner)) ?? "(code)"}`)
    .join("\n");
}

function shownPath(value: unknown): unknown {
  if (typeof value !== "string") return value;
  const origin = snapshotOrigin(value);
  if (origin !== null) return `${origin.repo}@${origin.sha}`;
  return value.startsWith("/") ? "(local)" : value;
}

/** The name on the Hub of a path that was fetched from there. */
function hubName(path: string | null | undefined): string | null {
  if (!path) return null;
  const origin = snapshotOrigin(path);
  if (origin !== null) return origin.repo;
  return path.startsWith("hf://") ? (parseHubName(path)?.repo ?? null) : null;
}

function dataPaths({ data }: RecordedConfig): string[] {
  if (data === undefined || data === null) return [];
  return leavesOf(data)
    .filter(({ key }) => /(^|\.)path$/.test(key))
    .flatMap(({ value }) => [value].flat())
    .filter((value) => typeof value === "string");
}
