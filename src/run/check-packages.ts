/** Refuses a run that needs an optional package which is not installed, before anything starts. */
import { expectPackage } from "../errors/optional-package.ts";
import { NO_SYMBOLIC } from "../rewards/math/math-reward.ts";
import type { RunConfig } from "./run-config.ts";

type Parts = Pick<RunConfig, "envs" | "rewards">;

/** Throws PACKAGE_MISSING for the first one. `expect` is for tests. */
export function checkPackages({ envs, rewards }: Parts, expect: typeof expectPackage = expectPackage): void {
  for (const [name, env] of Object.entries(envs)) checkEnv(env, `envs.${name}`, expect);
  for (const [name, reward] of Object.entries(rewards)) checkReward(reward, `rewards.${name}`, expect);
}

function checkEnv(env: Readonly<Record<string, unknown>>, path: string, expect: typeof expectPackage): void {
  if (env.type !== "tool-use") return;
  const { code = [], mcpServers = [] } = env as { code?: readonly string[]; mcpServers?: readonly unknown[] };
  if (code.includes("javascript")) expect("quickjs-emscripten", `${path}.code with "javascript"`);
  if (mcpServers.length > 0) expect("@modelcontextprotocol/sdk", `${path}.mcpServers`);
}

function checkReward(reward: Readonly<Record<string, unknown>>, path: string, expect: typeof expectPackage): void {
  const { type, parts, languages, symbolic } = reward as {
    type: string;
    parts?: readonly { readonly reward: Readonly<Record<string, unknown>> }[];
    languages?: readonly string[];
    symbolic?: boolean;
  };
  if (type === "combine") {
    for (const [i, part] of (parts ?? []).entries()) checkReward(part.reward, `${path}.parts.${i}.reward`, expect);
  }
  if (type === "math" && symbolic === true) expect("@cortex-js/compute-engine", `${path} of type "math"`, NO_SYMBOLIC);
  if (type === "code" && languages?.includes("javascript") === true) {
    expect("quickjs-emscripten", `${path}.languages with "javascript"`);
  }
}
