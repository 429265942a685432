/** An environment of one's own: guess a number, and be told whether it is higher or lower. */
import { isPreset, modelOf, presetLine, type Scaffold, trainingOf } from "../scaffold.ts";

export const environment: Scaffold = {
  label: "An environment of my own, with several turns",
  isLanguageModel: true,
  runFile: (choices) => `import { defineRun } from "reroll";
import { guessNumber } from "./env.ts";

/** The environment is env.ts. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  envs: { "guess-number": { type: "custom", ...guessNumber() } },
  rollout: { groupsPerStep: 32, groupSize: 8, context: "turn", contextLength: 128, sampling: { maxTokens: ${isPreset(choices.model) ? 1 : 16} } },
  algorithm: { type: "gigpo" }, // compares guesses that were made from the same state
  training: ${trainingOf(choices, { presetRate: "2e-3", more: "minibatch: 64" })},
${presetLine(choices, 'warmStart: { type: "play", agent: "random", steps: 20 }, // from noise to legal guesses')}  loop: { type: "sync", steps: 50 },
  validation: { every: 10, prompts: 64 },
});
`,
  files: {
    "env.ts": `import { type EnvFactory, type EnvStep, type Observation, Random, type TextEnv } from "reroll";

/** Who halves the range with every guess always finds the number; who guesses blindly finds it in one game out of three. */
const LARGEST = 7;
const MAX_GUESSES = 3;
const RULES = "Guess the number . Reply with a number alone .";
const NUMBERS = Array.from({ length: LARGEST }, (_, i) => String(i + 1));

/** Guess a number, and be told the range that is left. The number comes from the prompt's seed: all samples of a group guess the same. */
export function guessNumber(): EnvFactory {
  return {
    makePrompt: (seed) => ({
      id: \`guess-number/\${seed}\`,
      domain: "guess-number",
      seed,
      messages: [],
      truth: null,
      extra: {},
    }),
    makeEnv: ({ seed }) => guessEnv(1 + new Random(seed).integer(LARGEST)),
    // A preset starts from nothing and gets a tokenizer of these words; a trained model has its own.
    words: { words: [...new Set([...RULES.split(" "), "between", "and", ...NUMBERS])], endWords: NUMBERS },
  };
}

function guessEnv(number: number): TextEnv {
  let low = 1;
  let high = LARGEST;
  let left = MAX_GUESSES;
  const observe = (): Observation => ({
    messages: [{ role: "user", content: \`between \${low} and \${high}\` }],
    stateKey: \`\${number} in \${low}-\${high}\`,
  });
  return {
    start: () => ({ instructions: [{ role: "system", content: RULES }], observation: observe() }),
    step: ({ text }): EnvStep => {
      if (left === 0) throw new Error("No guesses are left.");
      const guess = Number(/\\d+/.exec(text)?.[0] ?? Number.NaN);
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
    randomReply: (random) => String(1 + random.integer(LARGEST)),
    oracleReply: () => String(Math.floor((low + high) / 2)),
    render: () => \`\${low} <= ? <= \${high}\`,
  };
}
`,
    "check.ts": `import { checkEnv } from "reroll";
import { guessNumber } from "./env.ts";

/** Plays the environment without a model and says what is broken. Run it with: npx tsx check.ts */
for (const { rule, text } of await checkEnv(guessNumber())) console.log(\`\${rule}: \${text}\`);
`,
  },
  about: `- \`env.ts\`: the environment. Change what an episode is, and what it pays.
- \`check.ts\`: plays it without a model and says what is broken (\`npx tsx check.ts\`; silence is what you want).
`,
  measured: "the share of numbers found rises from 40 % to 75 % in 50 steps",
};
