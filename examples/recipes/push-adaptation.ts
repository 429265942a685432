/**
 * A teacher knows the hidden physics of a table; a student infers them from what its own pushes did.
 *
 * Trains     a puck pusher whose motors are turned, and whose masses, strengths and tilt are drawn anew for every episode
 * Hardware   one CPU core, some minutes
 * Expect     return of the student in the physics of training, mean of three seeds: 94 after train, 139 after adapt, 159 after
 *            finetune, where its teacher has 160; 128 on held-out physics, where it has 127
 * Command    reroll train examples/recipes/push-adaptation.ts
 */
import { defineAdaptationRun } from "reroll/control";

export const run = defineAdaptationRun({
  name: "push-adaptation",
  env: { type: "push", numEnvs: 64 },
  policy: { latentSize: 32, actorHidden: [64, 64], criticHidden: [64, 64], adaptModule: { type: "gru" }, logStd: -0.5 },
  algorithm: { type: "roa", lr: 1e-3 },
  loop: { ticks: 32, train: 1_000_000, adapt: 200_000, finetune: 800_000 },
  validation: { every: 100, episodes: 64 },
});
