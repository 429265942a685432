/** The files of a new project, by task. Pure: choices in, texts out. */
import { presetSizes } from "../../models/causal-lm/presets.ts";

/** The kinds of task that a project can start with. */
export const taskKinds = {
  game: "Play a built-in game, to see a model learn on this machine",
  environment: "An environment of my own, with several turns",
  reward: "Prompts of my own, and a function that scores the replies",
  supervised: "Conversations of my own, whose replies the model learns",
} as const;

/** One of `taskKinds`. */
export type TaskKind = keyof typeof taskKinds;

/** The answers of the person who starts a project. */
export interface ProjectChoices {
  readonly task: TaskKind;
  /** A preset, or a folder in Hugging Face layout. */
  readonly model: string;
  /** The name of the project and of its runs. */
  readonly name: string;
  /** The reroll version that the project depends on. */
  readonly version: string;
}

/** Texts by path in the project. */
export function projectFiles(choices: ProjectChoices): Readonly<Record<string, string>> {
  return {
    "package.json": packageJson(choices),
    ".gitignore": "node_modules\nruns\n",
    "README.md": readme(choices),
    "run.ts": runFiles[choices.task](choices),
    ...ownFiles[choices.task],
  };
}

/** Whether weights start from chance, which takes other settings than fine-tuning does. */
function isPreset(model: string): boolean {
  return Object.hasOwn(presetSizes, model);
}

function modelOf({ model }: ProjectChoices): string {
  return isPreset(model) ? `{ preset: ${JSON.stringify(model)} }` : `{ path: ${JSON.stringify(model)} }`;
}

/** Weights from chance learn at rates that would destroy trained ones. */
function trainingOf({ model }: ProjectChoices): string {
  return isPreset(model) ? "{ optimizer: { lr: 1e-3 } }" : "{ optimizer: { lr: 1e-6 } }";
}

function packageJson({ name, version }: ProjectChoices): string {
  const content = {
    name,
    private: true,
    type: "module",
    scripts: { train: "reroll train run.ts", plan: "reroll train run.ts --plan", doctor: "reroll doctor" },
    dependencies: { reroll: `^${version}` },
  };
  return `${JSON.stringify(content, null, 2)}\n`;
}

const runFiles: Readonly<Record<TaskKind, (choices: ProjectChoices) => string>> = {
  game: (choices) => `import { defineRun } from "reroll";

/** A model walks over a frozen lake. Every key that is not here has a default: reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", maxTurns: 8 } },
  rollout: { groupsPerStep: 32, groupSize: 8, context: "turn", contextLength: 128, sampling: { maxTokens: 8 } },
  algorithm: { type: "gigpo" }, // compares moves that were made from the same place
  training: ${trainingOf(choices)},${isPreset(choices.model) ? '\n  warmStart: { type: "play", agent: "random", steps: 40 }, // from noise to legal moves\n' : "\n"}  loop: { type: "sync", steps: 100 },
  validation: { every: 20, prompts: 64 },
});
`,
  environment: (choices) => `import { defineRun } from "reroll";
import { guessNumber } from "./env.ts";

/** The environment is env.ts. Every key that is not here has a default: reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  envs: { "guess-number": { type: "custom", ...guessNumber() } },
  rollout: { groupsPerStep: 16, groupSize: 8, contextLength: 2048, maxTurns: 8, sampling: { maxTokens: 64 } },
  algorithm: { type: "grpo" },
  training: ${trainingOf(choices)},
  loop: { type: "sync", steps: 100 },
  validation: { every: 20, prompts: 64 },
});
`,
  reward: (choices) => `import { defineRun } from "reroll";
import { politeReward } from "./reward.ts";

/** Prompts are prompts.jsonl, the score is reward.ts. Every key that is not here has a default: reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  data: { type: "jsonl", path: "prompts.jsonl" },
  rewards: { default: { type: "custom", ...politeReward } },
  rollout: { groupsPerStep: 8, groupSize: 8, contextLength: 1024, sampling: { maxTokens: 128 } },
  algorithm: { type: "grpo" },
  training: ${trainingOf(choices)},
  loop: { type: "sync", steps: 100 },
});
`,
  supervised: (choices) => `import { defineTuning } from "reroll";

/** The conversations are chats.jsonl. Every key that is not here has a default: reroll train run.ts --explain shows them all. */
export default defineTuning({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  objective: { type: "supervised" }, // only the replies of the assistant count
  data: { type: "jsonl", path: "chats.jsonl" },
  loop: { epochs: ${isPreset(choices.model) ? 40 : 3}, rowsPerStep: 8 },
  training: { optimizer: { lr: ${isPreset(choices.model) ? "1e-3" : "1e-5"} }, schedule: { type: "cosine", warmup: 2 } },
});
`,
};

const ownFiles: Readonly<Record<TaskKind, Readonly<Record<string, string>>>> = {
  game: {},
  environment: {
    "env.ts": `import type { EnvFactory, EnvStep, Observation, TextEnv } from "reroll";

/** Guess a number between 1 and 100, and be told whether it is higher or lower. The number comes from the prompt's seed. */
export function guessNumber({ maxGuesses = 7 } = {}): EnvFactory {
  return {
    makePrompt: (seed) => ({ id: \`guess-number/\${seed}\`, domain: "guess-number", seed, messages: [], truth: null, extra: {} }),
    makeEnv: (prompt) => guessEnv(1 + (Math.abs(prompt.seed * 2654435761) % 100), maxGuesses),
  };
}

function guessEnv(number: number, maxGuesses: number): TextEnv {
  let low = 1;
  let high = 100;
  let left = maxGuesses;
  const observe = (): Observation => ({
    messages: [{ role: "user", content: \`The number is between \${low} and \${high}.\` }],
    stateKey: \`\${number} in \${low}-\${high}\`,
  });
  return {
    start: () => ({
      instructions: [{ role: "system", content: "Guess a whole number. Write it between tags: <answer>50</answer>" }],
      observation: observe(),
    }),
    step: ({ text }): EnvStep => {
      const guess = Number(/<answer>\\s*(\\d{1,3})\\s*<\\/answer>/.exec(text)?.[1] ?? Number.NaN);
      const isRight = guess === number;
      if (guess < number) low = Math.max(low, guess + 1);
      if (guess > number) high = Math.min(high, guess - 1);
      left = isRight ? 0 : left - 1;
      return {
        kind: isRight ? "terminated" : left === 0 ? "truncated" : "continues",
        reward: Number(isRight),
        metrics: { valid_action: Number(!Number.isNaN(guess)), ...(left === 0 ? { success: Number(isRight) } : {}) },
        observation: observe(),
      };
    },
  };
}
`,
  },
  reward: {
    "reward.ts": `/** What a good reply is: it thanks, and it is short. Throw where you cannot tell: the trajectory is then left out, not scored 0. */
export const politeReward = {
  name: "polite",
  score: ({ reply }: { readonly reply: string }) => {
    const thanks = /\\bthank/i.test(reply) ? 1 : 0;
    const short = reply.length <= 200 ? 1 : 0;
    return { value: 0.7 * thanks + 0.3 * short, parts: { thanks, short } };
  },
};
`,
    "prompts.jsonl": [
      "My parcel is late. What now?",
      "I was charged twice this month.",
      "The app closes when I open a photo.",
      "How do I change my address?",
      "Your driver left the box in the rain.",
      "I want to cancel my order.",
      "Can I pay by invoice?",
      "The size does not fit. Can I return it?",
    ]
      .map((prompt) => `${JSON.stringify({ prompt })}\n`)
      .join(""),
  },
  supervised: {
    "chats.jsonl": [
      ["My parcel is late. What now?", "Sorry about the wait. Send me the order number, and I will find it."],
      ["I was charged twice this month.", "That should not happen. I have asked for the second charge back."],
      ["How do I change my address?", "Open Account, then Addresses, and choose Edit."],
      ["Can I pay by invoice?", "Yes, for orders above 50 euros."],
    ]
      .map(([asked, reply]) => [
        { role: "user", content: asked },
        { role: "assistant", content: reply },
      ])
      .map((messages) => `${JSON.stringify({ messages })}\n`)
      .join(""),
  },
};

function readme({ name, task, model }: ProjectChoices): string {
  const parts: Readonly<Record<TaskKind, string>> = {
    game: isPreset(model)
      ? "\n\nWith nano and seed 1 on two CPU cores this took 40 seconds: the share of lakes crossed in validation rose from 17 % to 92 %."
      : "",
    environment: "\n- `env.ts`: the environment. Change what an episode is, and what it pays.",
    reward: "\n- `prompts.jsonl`: the prompts, one per line.\n- `reward.ts`: the score of a reply.",
    supervised: "\n- `chats.jsonl`: the conversations, one per line.",
  };
  return `# ${name}

${taskKinds[task]}. The model is \`${model}\`.

\`\`\`sh
npm install
npx reroll doctor             # is this machine ready?
npx reroll train run.ts       # weights and metrics go to runs/${name}
npx reroll generate runs/${name}
npx reroll runs
\`\`\`

- \`run.ts\`: what is trained, and how. \`npx reroll train run.ts --explain\` prints every key; \`--set loop.steps=200\` changes one.${parts[task]}
`;
}
