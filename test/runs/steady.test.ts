/** Steady engines and reward models under each of OpenBLAS's kernels that this processor can run: nothing depends on what else runs. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { compileScript } from "../compile-script.ts";

const child = await compileScript(new URL("steady-child.ts", import.meta.url));
const flags = existsSync("/proc/cpuinfo") ? readFileSync("/proc/cpuinfo", "utf8") : "";
const runs = (flag: string) => new RegExp(`^flags\\s*:.*\\b${flag}\\b`, "m").test(flags);

/** The choice of OpenBLAS, and kernels by name. They mean nothing to another library, which then computes the same each time. */
const choices = [null, ...(runs("avx2") ? ["Haswell", "Zen"] : []), ...(runs("avx512vl") ? ["SkylakeX"] : [])];

test.each(choices)("a request draws the same bits alone and among others, with kernels for %s", (kernels) => {
  const { OPENBLAS_CORETYPE: _, ...env } = process.env;
  const chosen = kernels === null ? env : { ...env, OPENBLAS_CORETYPE: kernels };
  const { core, same } = JSON.parse(execFileSync(process.execPath, [child], { env: chosen, encoding: "utf8" }));
  if (kernels !== null && core !== null) expect(core).toBe(kernels);
  expect(same).toEqual(["dense", "experts", "linear attention", "reward model"]);
});
