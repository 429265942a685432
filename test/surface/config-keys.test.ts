/** The keys of run files and their defaults change only on purpose: `npx vitest run test/surface -u` writes the new list. */
import { expect, test } from "vitest";
import { configKeys } from "../../scripts/generate/run-file/config-keys.ts";
import { adaptationConfig } from "../../src/control/adaptation/config.ts";
import { controlConfig } from "../../src/control/control-config.ts";
import { dataOptions } from "../../src/data/data-options.ts";
import { runConfig } from "../../src/run/run-config.ts";
import { tuningConfig } from "../../src/tuning/tuning-config.ts";

const controlKeys = configKeys(controlConfig.omit({ env: true }));
const tuningKeys = configKeys(tuningConfig);
const adaptationKeys = configKeys(adaptationConfig.omit({ env: true }));

test("the keys of a run file are those of config-keys.txt", async () => {
  const keys = [
    ...configKeys(runConfig),
    ...dataOptions.options.flatMap((option) =>
      configKeys(option).map((row) => ({
        ...row,
        key: `source(${[...(option.shape.type._zod.values ?? [])][0]}).${row.key}`,
      })),
    ),
    ...controlKeys.map((row) => ({ ...row, key: `control.${row.key}` })),
    ...tuningKeys.map((row) => ({ ...row, key: `tuning.${row.key}` })),
    ...adaptationKeys.map((row) => ({ ...row, key: `adaptation.${row.key}` })),
  ].filter(({ key }) => !key.endsWith(").type"));
  expect(new Set(keys.map(({ key }) => key)).size).toBe(keys.length);
  const lines = keys.map(({ key, initial }) => (initial === "" ? key : `${key} = ${initial}`));
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("config-keys.txt");
});

test("every key of a run file is described", () => {
  const undescribed = [...configKeys(runConfig), ...controlKeys, ...tuningKeys, ...adaptationKeys].filter(
    ({ meaning }) => meaning === "",
  );
  expect(undescribed.map(({ key }) => key)).toEqual([]);
});
