/** Context distillation: the model learns to do without a text that helps it. */
import { isPreset, modelOf, presetLine, type Scaffold, trainingOf } from "../scaffold.ts";

const NOISE_TO_READING = "// from noise to reading hints; nothing about codes";

export const distillation: Scaffold = {
  label: "Context distillation: what the model knows while it reads a text, without the text",
  isLanguageModel: true,
  runFile: (choices) => `import { defineRun } from "reroll";
import { codes${isPreset(choices.model) ? ", lessons" : ""} } from "./codes.ts";

/** The task is codes.ts. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  envs: { codes: { type: "custom", ...codes() } },
  rollout: { groupsPerStep: 16, groupSize: 8, contextLength: 128, sampling: { maxTokens: ${isPreset(choices.model) ? 1 : 8} } },
  distillation: {
    teachers: { default: { type: "self", context: "hint {truth}" } }, // a stronger model: { type: "folder", path: "..." }
    form: "full",
    divergence: "forward",
    rewards: false, // they are measured, and not learned from
  },
  training: ${trainingOf(choices)},
${presetLine(choices, lessonLine())}  loop: { type: "sync", steps: 24 },
});
`,
  files: {
    "codes.ts": `import { type EnvFactory, Random } from "reroll";

/** Every key has a code word that cannot be guessed: only a hint, or what is learned from it, says which. */
const WORDS = Array.from({ length: 32 }, (_, i) => \`w\${i}\`);
const KEYS = Array.from({ length: 24 }, (_, i) => \`k\${i}\`);
const CODES = new Random(11).shuffled([...WORDS]).slice(0, KEYS.length);

/** "key k3" is answered by the code word of k3. The key comes from the prompt's seed. */
export function codes(): EnvFactory {
  const keyOf = (seed: number) => new Random(seed).integer(KEYS.length);
  return {
    makePrompt: (seed) => ({
      id: \`codes/\${seed}\`,
      domain: "codes",
      seed,
      messages: [],
      truth: CODES[keyOf(seed)]!, // what {truth} stands for
      extra: {},
    }),
    makeEnv: ({ seed }) => ({
      start: () => ({
        instructions: [],
        observation: { messages: [{ role: "user", content: \`key \${KEYS[keyOf(seed)]}\` }] },
      }),
      step: ({ text }) => {
        const success = Number(text.trim() === CODES[keyOf(seed)]);
        return { kind: "terminated", reward: success, metrics: { success } };
      },
    }),
    // A preset starts from nothing and gets a tokenizer of these words; a trained model has its own.
    words: { words: [...WORDS, ...KEYS, "key", "hint", "answer"], endWords: WORDS },
  };
}

/** Keys with any word before or behind them, which is the answer: they teach a preset to read hints. A trained model can read. */
export function lessons(): { question: string; answer: string }[] {
  return Array.from({ length: 2048 }, (_, i) => {
    const random = new Random(i);
    const [key, right, wrong] = [random.pick(KEYS), random.pick(WORDS), random.pick(WORDS)];
    const isBefore = random.integer(2) === 0;
    return { question: isBefore ? \`hint \${right}\\n\\nkey \${key}\` : \`key \${key} \${wrong} answer \${right}\`, answer: right! };
  });
}
`,
  },
  about: "- `codes.ts`: the task, and what a model from nothing has to be taught before it can read a hint.\n",
  measured: "the share of codes that are known without the hint rises from 0 to 95 % in 24 steps, well within a minute",
};

/** The warm start of a preset. */
export function lessonLine(): string {
  return `warmStart: { type: "data", data: { type: "rows", rows: lessons() }, steps: 60, optimizer: { lr: 3e-3 } }, ${NOISE_TO_READING}`;
}
