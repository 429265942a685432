import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { createVecEnv, vecEnvOptions } from "./vec-catalog.ts";

test("classic tasks and those of MuJoCo are built by name", async () => {
  const sizes = new Map<string, readonly [number, number]>();
  for (const type of ["cart-pole", "pendulum", "half-cheetah", "push"] as const) {
    const env = await createVecEnv({ type, numEnvs: 2 });
    const { actions, observationSize } = env;
    sizes.set(type, [observationSize, actions.kind === "discrete" ? actions.count : actions.size]);
    expect(env.reset(0).observations_NO.length).toBe(2 * observationSize);
    await env.close?.();
  }
  expect(Object.fromEntries(sizes)).toEqual({
    "cart-pole": [4, 2],
    pendulum: [3, 1],
    "half-cheetah": [17, 6],
    push: [29, 2],
  });
});

test("an unknown type or option is refused", () => {
  expect(vecEnvOptions.safeParse({ type: "cart-pool" }).success).toBe(false);
  expect(vecEnvOptions.safeParse({ type: "hopper", split: "train" }).success).toBe(false);
  expect(vecEnvOptions.safeParse({ type: "push", physics: { puckMass: [2, 1] } }).success).toBe(false);
});

test("MuJoCo is loaded by nobody who does not ask for it", async () => {
  const { metafile } = await build({
    entryPoints: [fileURLToPath(new URL("vec-catalog.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    write: false,
    metafile: true,
  });
  const imports = Object.values(metafile.inputs).flatMap((input) => input.imports);
  const kinds = imports.filter(({ path }) => path === "@mujoco/mujoco").map(({ kind }) => kind);
  expect(kinds).toEqual(["dynamic-import"]);
});
