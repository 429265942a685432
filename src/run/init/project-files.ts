/** The files of a new project, by task. Pure: choices in, texts out. */
import { isPreset, type Scaffold, type ScaffoldChoices } from "./scaffold.ts";
import { agent } from "./scaffolds/agent.ts";
import { control } from "./scaffolds/control.ts";
import { distillation } from "./scaffolds/distillation.ts";
import { environment } from "./scaffolds/environment.ts";
import { game } from "./scaffolds/game.ts";
import { ppo } from "./scaffolds/ppo.ts";
import { preference } from "./scaffolds/preference.ts";
import { reflection } from "./scaffolds/reflection.ts";
import { reward } from "./scaffolds/reward.ts";
import { rewardModel } from "./scaffolds/reward-model.ts";
import { supervised } from "./scaffolds/supervised.ts";

/** The kinds of project, by the word of `--task`. A new kind is a file and a line here. */
export const scaffolds = {
  game,
  environment,
  reward,
  agent,
  supervised,
  preference,
  "reward-model": rewardModel,
  ppo,
  distillation,
  reflection,
  control,
} as const satisfies Record<string, Scaffold>;

/** One of `scaffolds`. */
export type TaskKind = keyof typeof scaffolds;

/** The answers of the person who starts a project. */
export interface ProjectChoices extends ScaffoldChoices {
  readonly task: TaskKind;
  /** What npm installs reroll from: a range of versions, or where this copy came from. */
  readonly dependency: string;
}

/** Texts by path in the project. */
export function projectFiles(choices: ProjectChoices): Readonly<Record<string, string>> {
  const { runFile, files } = scaffolds[choices.task];
  return {
    "package.json": jsonText({ name: choices.name, private: true, ...packageParts(choices) }),
    "tsconfig.json": jsonText(tsconfig),
    ".gitignore": "node_modules\nruns\n",
    "README.md": readme(choices),
    "run.ts": runFile(choices),
    ...files,
  };
}

/** What a package.json that is there already gets where it says nothing else. Its lock file stays valid. */
export function addToPackage(text: string, choices: ProjectChoices): string {
  const present: Record<string, unknown> = JSON.parse(text);
  const added = packageParts(choices);
  return jsonText({
    ...present,
    type: "module",
    scripts: { ...added.scripts, ...(present.scripts as object | undefined) },
    dependencies: { ...added.dependencies, ...(present.dependencies as object | undefined) },
  });
}

function packageParts({ dependency }: ProjectChoices) {
  return {
    type: "module",
    scripts: { train: "reroll train run.ts", plan: "reroll train run.ts --plan", doctor: "reroll doctor" },
    dependencies: { reroll: dependency },
  };
}

/** As a run file is loaded: ES modules that import each other with their endings. */
const tsconfig = {
  compilerOptions: {
    target: "es2022",
    module: "nodenext",
    moduleResolution: "nodenext",
    strict: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    verbatimModuleSyntax: true,
    types: ["node"],
  },
  include: ["*.ts"],
};

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function readme({ name, task, model }: ProjectChoices): string {
  const { label, about, measured, isLanguageModel } = scaffolds[task];
  const uses = isLanguageModel ? ` The model is \`${model}\`.` : "";
  const talk = isLanguageModel ? `npx reroll generate runs/${name}   # talk to it\n` : "";
  const expected =
    isLanguageModel && !isPreset(model)
      ? ""
      : `\n\nWhat to expect, with seed 1 on two CPU cores: ${measured}. Processors round differently, so yours may be some percent off.`;
  return `# ${name}

${label}.${uses}

\`\`\`sh
npm install
npx reroll setup              # once per machine: the native addon
npx reroll train run.ts       # weights and metrics go to runs/${name}
${talk}npx reroll dashboard          # curves, and every trajectory
\`\`\`

- \`run.ts\`: what is trained, and how. \`npx reroll train run.ts --explain\` prints every key; \`--set loop.steps=200\` changes one.
${about}
Types: \`npx -p typescript tsc\`.${expected}
`;
}
