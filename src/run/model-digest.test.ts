import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { modelDigest } from "./model-digest.ts";

test("a model is the same wherever it lies, and another one where any of its weights have been trained", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-digest-"));
  try {
    const [here, there, trained] = ["here", "there", "trained"].map((name) => join(root, name)) as [
      string,
      string,
      string,
    ];
    for (const folder of [here, there, trained]) mkdirSync(folder);
    const weights = Buffer.alloc(3_000_000, 1);
    writeFileSync(join(here, "config.json"), "{}");
    writeFileSync(join(here, "model.safetensors"), weights);
    for (const folder of [there, trained]) {
      for (const name of ["config.json", "model.safetensors"]) copyFileSync(join(here, name), join(folder, name));
    }
    writeFileSync(join(there, "notes.txt"), "moved");
    // One matrix out of many.
    writeFileSync(join(trained, "model.safetensors"), weights.fill(2, 1_000_000, 1_100_000));
    expect(await modelDigest(there)).toBe(await modelDigest(here));
    expect(await modelDigest(trained)).not.toBe(await modelDigest(here));
  } finally {
    rmSync(root, { recursive: true });
  }
});
