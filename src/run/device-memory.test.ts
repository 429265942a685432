import { expect, test } from "vitest";
import { exampleConfig } from "../../test/cli/example-run.ts";
import { buildRecipe } from "../algorithms/recipes/table.ts";
import { presetConfig } from "../models/causal-lm/presets.ts";
import { deviceMemory } from "./device-memory.ts";
import { peakBytes } from "./estimate-memory.ts";
import { placeRun } from "./machine.ts";
import { planRun } from "./plan-run.ts";
import { hasLentEngines } from "./shares-weights.ts";

const model = presetConfig("small", 32_000);
const ppo = { needsReference: true, hasCritic: true } as const;
const facts = { model, isOnGpu: true, dtype: "bfloat16", ...ppo } as const;
const sets = ["device=cuda", "algorithm.type=ppo", "algorithm.klReward.coefficient=0.1"];
const place = (...more: string[]) => {
  const config = exampleConfig(...sets, ...more);
  return {
    config,
    devices: deviceMemory(config, { ...facts, isEngineLent: hasLentEngines(config, true) }, placeRun(config, 4)),
  };
};
const ownersOn = ({ devices }: ReturnType<typeof place>) =>
  devices.map(({ device, parts }) => [device, [...new Set(parts.map(({ owner }) => owner))]]);

test("every role is counted on the device that its placement gives it", () => {
  expect(ownersOn(place())).toEqual([["cuda", ["trainer", "critic", "reference", "engine"]]]);
  const apart = ['placement.reference.devices="2"', 'placement.critic.devices="2-3"', 'placement.engine.devices="1"'];
  expect(ownersOn(place(...apart))).toEqual([
    ["cuda", ["trainer"]],
    ["cuda:2", ["reference", "critic"]],
    ["cuda:3", ["critic"]],
    ["cuda:1", ["engine"]],
  ]);
});

test("each device of a split engine is counted with its part, and an engine that does not fit is refused with the split after which it would", () => {
  const engineOn = (...more: string[]) =>
    place('placement.engine.devices="1-2"', ...more).devices.map(({ device, parts }) => [
      device,
      parts.filter(({ owner }) => owner === "engine").reduce((sum, { bytes }) => sum + bytes, 0),
    ]);
  const [[, none], [, whole], [second]] = engineOn() as [[string, number], [string, number], [string, number]];
  expect([none, second]).toEqual([0, "cuda:2"]);
  const [, ...split] = engineOn("placement.engine.tensor=2") as [string, number][];
  expect(split.map(([device]) => device)).toEqual(["cuda:1", "cuda:2"]);
  for (const [, bytes] of split) expect(bytes / whole).toBeCloseTo(0.5, 2);
  const { config, devices } = place(
    ...['placement.engine.devices="1-2"', 'algorithm={"type":"grpo"}', "training.recompute=true"],
    ...["rollout.contextLength=2048", "rollout.maxInFlight=256", "training.maxTokensPerMicrobatch=2048"],
  );
  const engines = peakBytes(devices[1]!.parts, true);
  const machine = { device: "cuda", dtype: "bfloat16", memoryBytes: engines - 1, places: placeRun(config, 4) } as const;
  const plan = () => planRun(config, buildRecipe(config.algorithm as never), machine, model);
  expect(plan).toThrow(/^This run needs about .*, and cuda:1 has .*: engine weights .*, engine KV cache .*/);
  expect(plan).toThrow(/It fits with placement\.engine\.tensor: 2\.$/);
});

test("what sleeps is not counted beside what works while it sleeps", () => {
  const peak = (...more: string[]) => peakBytes(place(...more).devices[0]!.parts, true);
  const part = (owner: string, what: string) =>
    place().devices[0]!.parts.find((one) => one.owner === owner && one.what === what)!.bytes;
  // A reference is there while it measures, when activations of the trainer are not there yet.
  expect(peak() - peak("placement.reference.sleep=true")).toBe(part("reference", "weights"));
  const { parts } = place("placement.critic.sleep=true", "placement.trainer.sleep=true").devices[0]!;
  const rollout = parts.filter(({ phase }) => phase === undefined || phase === "rollout");
  expect([...new Set(rollout.map(({ owner }) => owner))]).toEqual(["trainer", "reference", "engine"]);
  expect(rollout.some(({ what }) => what === "optimizer")).toBe(false);
});

test("a role that does not fit on its device is refused before the start, with a change after which it would", () => {
  const { config, devices } = place('placement.critic.devices="1"', "training.recompute=true");
  const [trainers, critics] = devices.map(({ parts }) => peakBytes(parts, true)) as [number, number];
  expect(critics).toBeLessThan(trainers);
  const plan = (memoryBytes: number, run = config) => {
    const machine = { device: "cuda", dtype: "bfloat16", memoryBytes, places: placeRun(run, 4) } as const;
    return planRun(run, buildRecipe(run.algorithm as never), machine, model);
  };
  expect(plan(trainers).lines.at(-1)).toMatch(/^ {2}critic, on cuda:1: weights .*, optimizer .*, activations/);
  expect(() => plan(trainers - 1)).toThrow(
    /^This run needs about .* and cuda has .* It fits with placement\.reference\.sleep: true\.$/,
  );
  const together = place("training.recompute=true");
  const needed = peakBytes(together.devices[0]!.parts, true);
  expect(() => plan(needed - 1, together.config)).toThrow(/It fits with placement\.reference\.sleep: true\.$/);
});
