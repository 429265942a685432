/**
 * GRPO, DAPO, RLOO, GSPO, PPO and GiGPO on the same task with the same budget: the lakes of the quickstart, 100 steps of 512 episodes.
 *
 * node --import tsx bench/ablations.ts [--seeds 1,2,3] [--jobs 1] [--out folder]
 * node --import tsx bench/ablations.ts --merge folder
 * Makes the table, bench/results/ablations.json and docs/images/ablations.svg.
 */
import { writeFileSync } from "node:fs";
import { type AblationRun, ALGORITHMS } from "./ablations-plan.ts";
import { curveFigure } from "./curve-figure.ts";
import { printTable } from "./report.ts";
import { curveOf, meanOf, rangeOf, seededRuns, writeRuns } from "./seeded-runs.ts";

/** Where the table looks at the runs. */
const STEPS = [0, 20, 40, 100];

const runs = await seededRuns<AblationRun>({
  name: "ablations",
  defaultSeeds: "1,2,3",
  wordsOf: (seed) => Object.keys(ALGORITHMS).map((name) => [name, seed]),
});
if (runs !== null) report(runs);

function report(runs: readonly AblationRun[]): void {
  const arms = Object.keys(ALGORITHMS)
    .map((name) => ({ name, own: runs.filter(({ algorithm }) => algorithm === name) }))
    .filter(({ own }) => own.length > 0);
  const ofAll = (own: readonly AblationRun[], step: number) =>
    own.flatMap(({ points }) => points.find(({ x }) => x === step)?.y ?? []);
  printTable(
    "Success on unseen maps, greedy: mean over seeds (lowest to highest), and how many seeds",
    ["algorithm", ...STEPS.map((step) => `step ${step}`), "seconds"],
    arms.map(({ name, own }) => [
      name,
      ...STEPS.map((step) => `${rangeOf(ofAll(own, step), 3)} of ${ofAll(own, step).length}`),
      meanOf(own.filter((run) => ofAll([run], STEPS.at(-1)!).length > 0).map(({ seconds }) => seconds)).toFixed(0),
    ]),
  );
  const curves = arms.map(({ name, own }) => curveOf(name, own));
  const panel = {
    ...{ title: "share of unseen maps crossed: mean of seeds, lowest to highest", x: "training step" },
    ...{ hasBars: true, curves },
  };
  const title = "The same task and budget with several algorithms";
  writeFileSync(new URL("../docs/images/ablations.svg", import.meta.url), curveFigure({ title, panels: [panel] }));
  writeRuns(
    "ablations",
    arms.flatMap(({ own }) => own),
  );
}
