import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { RerollError } from "../../errors/reroll-error.ts";
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

test("wrong options are refused with the key that is wrong", async () => {
  const nothing = createVecEnv({ type: "cart-pole", numEnvs: 0 });
  await expect(nothing).rejects.toBeInstanceOf(RerollError);
  await expect(nothing).rejects.toThrow("env.numEnvs is not valid: got 0. It must be more than 0.");
  await expect(createVecEnv({ type: "hopper", numThreads: -1 })).rejects.toThrow("env.numThreads is not valid: got -1");
});
