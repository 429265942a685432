import { expect, test } from "vitest";
import { checkPackages } from "./check-packages.ts";
import { resolveRun } from "./resolve-run.ts";

/** The packages that a run asks for, with who asks. */
function asked(changes: object): string[] {
  const { config } = resolveRun({ model: { preset: "nano" }, training: { optimizer: { lr: 1e-3 } }, ...changes });
  const names: string[] = [];
  checkPackages(config, (name, what) => void names.push(`${what}: ${name}`));
  return names;
}

test("the reward math needs the computer algebra unless it is told to do without", () => {
  const algebra = "@cortex-js/compute-engine";
  expect(asked({ rewards: { default: { type: "math" } } })).toEqual([`rewards.default of type "math": ${algebra}`]);
  expect(asked({ rewards: { default: { type: "math", symbolic: false } } })).toEqual([]);
});

test("parts of a combination are looked at too, and only programs in JavaScript need QuickJS", () => {
  const parts = [{ reward: { type: "code", languages: ["python", "javascript"] } }, { reward: { type: "code" } }];
  expect(asked({ rewards: { default: { type: "combine", mode: "weighted", parts } } })).toEqual([
    'rewards.default.parts.0.reward.languages with "javascript": quickjs-emscripten',
  ]);
});

test("tool use needs what its tools need", () => {
  const mcpServers = [{ name: "files", command: "files" }];
  expect(asked({ envs: { tools: { type: "tool-use", code: ["javascript"], mcpServers } } })).toEqual([
    'envs.tools.code with "javascript": quickjs-emscripten',
    "envs.tools.mcpServers: @modelcontextprotocol/sdk",
  ]);
});
