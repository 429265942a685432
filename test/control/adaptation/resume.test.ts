import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type PhasePlan, phaseAt } from "../../../src/control/adaptation/phase-plan.ts";
import { loadTrainer, saveTrainer } from "../../../src/control/trainer-checkpoint.ts";
import { buildParts } from "./adaptation-parts.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-adaptation-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const plan: readonly PhasePlan[] = [
  { phase: "train", iterations: 2 },
  { phase: "adapt", iterations: 2 },
  { phase: "finetune", iterations: 2 },
];
const short = { policyEpochs: 1, adaptEpochs: 1 };

type Parts = ReturnType<typeof buildParts>;

function advance({ trainer, actor, collector }: Parts, from: number, to: number): void {
  for (let step = from; step < to; step++) {
    const phase = phaseAt(plan, step)!;
    trainer.enter(phase);
    actor.enter(phase);
    trainer.step(collector.collect(10, step));
  }
}

function weightsOf({ policy }: Parts): Record<string, number[]> {
  return Object.fromEntries([...policy.namedParameters()].map(([name, parameter]) => [name, parameter.toArray()]));
}

const whole = buildParts({ trainer: short });
advance(whole, 0, 6);

test.each([1, 2, 3, 5])("a run that is stopped after iteration %d and resumed equals one that is not", (stop) => {
  const first = buildParts({ trainer: short });
  advance(first, 0, stop);
  const place = join(folder, `${stop}`);
  saveTrainer(first.trainer, place);
  const saved: unknown = JSON.parse(JSON.stringify(first.collector.save()));
  // Other first weights and episodes, all of which the checkpoint must replace.
  const second = buildParts({ trainer: short, seed: 77 });
  loadTrainer(second.trainer, place);
  second.collector.restore(saved as Parameters<typeof second.collector.restore>[0]);
  expect(second.trainer.state()).toEqual(first.trainer.state());
  advance(second, stop, 6);
  expect(weightsOf(second)).toEqual(weightsOf(whole));
});
