/** docs/reference/run-file.md: every key of a run file, from the schemas that check it. */
import { z } from "zod";
import { adaptationConfig } from "../../src/control/adaptation/config.ts";
import { controlConfig } from "../../src/control/control-config.ts";
import { controlEnvOptions } from "../../src/control/envs/classic/classic-env.ts";
import { mujocoEnvOptions } from "../../src/control/envs/mujoco/create-mujoco-env.ts";
import { dataOptions } from "../../src/data/data-options.ts";
import { envCatalog } from "../../src/envs/catalog.ts";
import { rewards } from "../../src/rewards/catalog.ts";
import { runConfig } from "../../src/run/run-config.ts";
import { tuningConfig } from "../../src/tuning/tuning-config.ts";
import type { OptionRow } from "./algorithm-table/schema-rows.ts";
import { configKeys } from "./run-file/config-keys.ts";

/** The text of docs/reference/run-file.md. */
export function runFileTable(): string {
  const keys = configKeys(runConfig);
  const sections = [...new Set(keys.map(({ key }) => sectionOf(key)))];
  const plain = sections.filter((section) => keys.filter(({ key }) => sectionOf(key) === section).length === 1);
  return `${[
    "<!-- Made by `npm run generate` from the schemas in src. Do not edit. -->",
    "# Run file",
    "Every key, what it takes, its default and what it means. A run file holds only what differs; `reroll train run.ts --explain` " +
      "prints all keys of one and where each comes from. How to write one: [guide](../guides/run-files.md).",
    "`loop(async).steps` is the key `loop.steps` where `loop.type` is `async`.",
    "## Keys of their own",
    optionTable(keys.filter(({ key }) => plain.includes(sectionOf(key)))),
    ...sections
      .filter((section) => !plain.includes(section))
      .flatMap((section) => [`## ${section}`, optionTable(keys.filter(({ key }) => sectionOf(key) === section))]),
    "## algorithm",
    "A recipe by `type`, and its options: [algorithms](algorithms.md).",
    "## Sources of prompts",
    "For `data`, `validation.data` and `warmStart.data`, by `type`. More: [data](../guides/data.md).",
    ...dataOptions.options.flatMap((option) => [
      `### data ${[...(option.shape.type._zod.values ?? [])][0]}`,
      optionTable(configKeys(option).filter(({ key }) => key !== "type")),
    ]),
    "## Environments",
    'For `envs.<domain>`, by `type`. `custom` is one of your own: `{ type: "custom", ...myEnv() }`. More: [environments](../guides/environments.md).',
    ...envCatalog.flatMap(({ type, options }) => [`### env ${type}`, optionTable(configKeys(options))]),
    "## Rewards",
    "For `rewards.<domain>`, by `type`; each also takes a `name`, under which its metrics are shown. `combine` makes one of several, " +
      '`custom` is one of your own: `{ type: "custom", name, score }`.',
    ...Object.entries(rewards).flatMap(([type, { options }]) => [
      `### reward ${type}`,
      optionTable(configKeys(options)),
    ]),
    "## Tuning runs",
    "Run files with `kind: tuning`, which `defineTuning` writes. `objective(supervised).train` is the key `objective.train` where " +
      "`objective.type` is `supervised`. More: [fine-tune on data](../guides/supervised.md).",
    optionTable(configKeys(tuningConfig)),
    "## Control runs",
    "Run files with `kind: control`, which `defineControlRun` writes. More: [control](../guides/control.md).",
    optionTable(configKeys(controlConfig.omit({ env: true }))),
    "## Adaptation runs",
    "Run files with `kind: adaptation`, which `defineAdaptationRun` writes. More: [adaptation](../guides/adaptation.md).",
    optionTable(configKeys(adaptationConfig.omit({ env: true }))),
    ...[controlEnvOptions, ...mujocoEnvOptions.options].flatMap((options) => [
      `### control env ${tagsOf(options.shape.type).join(", ")}`,
      optionTable(configKeys(options).filter(({ key }) => key !== "type")),
    ]),
  ].join("\n\n")}\n`;
}

function tagsOf(type: z.ZodEnum | z.ZodLiteral): unknown[] {
  return type instanceof z.ZodEnum ? type.options : [...type.values];
}

function sectionOf(key: string): string {
  return /^[^.(]+/.exec(key)?.[0] ?? key;
}

function optionTable(rows: readonly OptionRow[]): string {
  if (rows.length === 0) return "No options.";
  const line = (cells: readonly string[]) => `| ${cells.map(cellText).join(" | ")} |`;
  return [
    line(["key", "values", "default", "meaning"]),
    "|---|---|---|---|",
    ...rows.map(({ key, values, initial, meaning }) =>
      line([`\`${key}\``, values, initial === "" || initial === "required" ? initial : `\`${initial}\``, meaning]),
    ),
  ].join("\n");
}

/** Bars and angles do not act. */
function cellText(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll("\n", " ");
}
