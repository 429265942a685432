/**
 * The reward for code: runs what the reply holds against the tests in `prompt.truth`, in a sandbox.
 *
 * 1 when all tests pass and else 0; or, with `grading: "fraction"`, the part of the tests that pass. Code that fails, hangs or
 * misbehaves scores 0. A sandbox that breaks and tests that cannot be read throw: the trajectory has failed, not the model.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { createJavaScriptSandbox } from "../../sandbox/javascript-sandbox.ts";
import { createPythonSandbox } from "../../sandbox/python-sandbox.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import type { Reward, RewardDefinition, RewardInput, RewardScore } from "../reward.ts";
import { numTests, readCodeTests } from "./code-tests.ts";
import { extractCode, type Language, languages } from "./extract-code.ts";
import { gradeCode, pythonModules } from "./grade-code.ts";

const codeRewardOptions = z.strictObject({
  languages: z
    .array(z.enum(languages))
    .min(1)
    .default(["python"])
    .describe("Languages that replies may be written in. The first is used if the truth names none."),
  grading: z
    .enum(["all", "fraction"])
    .default("all")
    .describe("How tests are scored: 1 if all of them pass and 0 otherwise (all), or the share that pass (fraction)."),
  testTimeoutMs: z
    .number()
    .int()
    .positive()
    .default(5_000)
    .describe("Time limit for one test: wall time on standard input, processor time for checks and calls in Python."),
  totalTimeoutMs: z
    .number()
    .int()
    .positive()
    .default(30_000)
    .describe("Time limit for all tests of a reply, not counting the wait for a sandbox."),
  memoryMiB: z.number().int().positive().default(512).describe("Memory limit for one program."),
  tolerance: z
    .number()
    .nonnegative()
    .default(1e-6)
    .describe("How far numbers with a fraction may be off: relative above 1, absolute below."),
  numWorkers: z
    .number()
    .int()
    .positive()
    .optional()
    .describe("Number of programs that run at the same time, for each language. Default: the number of cores."),
});

type CodeRewardOptions = z.output<typeof codeRewardOptions>;

/** `{ type: "code" }`. Building it throws where Python cannot be isolated. */
export const codeReward: RewardDefinition<typeof codeRewardOptions> = {
  type: "code",
  options: codeRewardOptions,
  build: async (options) => {
    const sandboxes = await createSandboxes(options);
    return createCodeReward(sandboxes, options);
  },
};

function createCodeReward(sandboxes: ReadonlyMap<Language, Sandbox>, options: CodeRewardOptions): Reward {
  return {
    name: "code",
    cost: "sandbox",
    score: (input, signal) => score(input, sandboxes, options, signal),
    close: async () => void (await Promise.all([...sandboxes.values()].map((sandbox) => sandbox.close()))),
  };
}

async function score(
  { prompt, reply }: RewardInput,
  sandboxes: ReadonlyMap<Language, Sandbox>,
  options: CodeRewardOptions,
  signal: AbortSignal,
): Promise<RewardScore> {
  const { tests, language = options.languages[0] ?? "python" } = readCodeTests(prompt.truth);
  const sandbox = sandboxes.get(language);
  if (sandbox === undefined) {
    throw new RerollError(
      "INVALID_TRUTH",
      `Prompt ${prompt.id} wants ${language}, and the code reward runs ${options.languages.join(", ")}. Add it to the option languages.`,
    );
  }
  const code = extractCode(reply, language);
  if (code === null) return { value: 0, parts: { extracted: 0 }, explanation: `The reply holds no ${language} code.` };
  const stopsEarly = options.grading === "all";
  const outcomes = await gradeCode(code, tests, sandbox, { ...options, language, stopsEarly }, signal);
  const total = numTests(tests);
  const numPassed = outcomes.filter(({ failure }) => failure === null).length;
  const first = outcomes.findIndex(({ failure }) => failure !== null);
  return {
    value: options.grading === "fraction" ? numPassed / total : Number(numPassed === total),
    parts: { extracted: 1, passedTests: numPassed },
    explanation:
      first < 0
        ? `All ${total} tests pass.`
        : `Test ${first + 1} of ${total} fails: ${outcomes[first]?.test}: ${outcomes[first]?.failure}`,
  };
}

/** When one cannot be made, those that were are closed. */
async function createSandboxes(options: CodeRewardOptions): Promise<Map<Language, Sandbox>> {
  const sandboxes = new Map<Language, Sandbox>();
  try {
    for (const language of options.languages) sandboxes.set(language, await createSandbox(language, options));
  } catch (error) {
    await Promise.all([...sandboxes.values()].map((sandbox) => sandbox.close()));
    throw error;
  }
  return sandboxes;
}

function createSandbox(language: Language, options: CodeRewardOptions): Promise<Sandbox> {
  const { memoryMiB, totalTimeoutMs, numWorkers } = options;
  const limits = { memoryBytes: memoryMiB * 2 ** 20, wallMs: totalTimeoutMs };
  const common = numWorkers === undefined ? {} : { numWorkers };
  switch (language) {
    case "python":
      return createPythonSandbox({ ...common, modules: pythonModules, limits: { ...limits, cpuMs: totalTimeoutMs } });
    case "javascript":
      return createJavaScriptSandbox({ ...common, limits });
  }
}
