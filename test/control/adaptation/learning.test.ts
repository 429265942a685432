import { expect, test } from "vitest";
import { AdaptationActor } from "../../../src/control/adaptation/actor.ts";
import { numIterations, type PhasePlan, phaseAt } from "../../../src/control/adaptation/phase-plan.ts";
import type { AdaptationPhase } from "../../../src/control/adaptation/policy/phases.ts";
import { runControlLoop } from "../../../src/control/control-loop.ts";
import { evaluateControl } from "../../../src/control/evaluation.ts";
import { buildParts } from "./adaptation-parts.ts";
import { HiddenGainEnv } from "./hidden-gain-env.ts";

test("a teacher learns with hidden numbers, and a student that sees none of them comes close", async () => {
  const { policy, actor, collector, trainer } = buildParts({ numEnvs: 32, latentSize: 16, isStaggered: false });
  const returnOf = (phase: AdaptationPhase) => {
    const evaluated = new AdaptationActor(policy, { phase, numEnvs: 100, seed: 9, choice: "mode" });
    return evaluateControl(new HiddenGainEnv(100, { isStaggered: false }), evaluated, { episodes: 100, seed: 99 })[
      "reward/mean"
    ]!;
  };
  const atStart = returnOf("train");
  let afterTrain = 0;
  const plan: readonly PhasePlan[] = [
    { phase: "train", iterations: 35 },
    { phase: "adapt", iterations: 20 },
    { phase: "finetune", iterations: 20 },
  ];
  await runControlLoop(
    {
      beforeStep: (step) => {
        const phase = phaseAt(plan, step)!;
        if (phase === "adapt" && trainer.phase === "train") afterTrain = returnOf("adapt");
        trainer.enter(phase);
        actor.enter(phase);
      },
      collect: async (numTicks, version) => collector.collect(numTicks, version),
      train: async (rollout) => trainer.step(rollout).metrics,
      observer: { onStep: async () => "continue" },
    },
    { step: 0, version: 0 },
    { numSteps: numIterations(plan), ticksPerStep: 24 },
  );
  const [teacher, student] = [returnOf("train"), returnOf("finetune")];
  // A point that stands still gets about 10; one that knows its gain about 21.
  expect(teacher).toBeGreaterThan(atStart + 7);
  expect(student).toBeGreaterThan(atStart + 2);
  expect(student).toBeGreaterThan(afterTrain + 4);
}, 200_000);
