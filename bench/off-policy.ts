/**
 * What stale and inexact samplers do to training, and which corrections hold.
 *
 * node --import tsx bench/off-policy.ts [--seeds 1,2,3,4,5] [--jobs 1] [--out folder]
 * node --import tsx bench/off-policy.ts --merge folder
 * The same small task with every arm, every run a process with one thread: tokens are sampled one publication of four steps
 * ahead, and the engine's weights differ from the trainer's by noise, as those of a quantized engine do. On a machine with more
 * cores, packed with scripts/bundle.mjs, the folder of `--out` is what to bring home, and `--merge` makes the table,
 * bench/results/off-policy.json and docs/images/off-policy.svg of it.
 */
import { writeFileSync } from "node:fs";
import { type Curve, curveFigure } from "./curve-figure.ts";
import { ARMS, jobsOf, NOISES, type OffPolicyRun } from "./off-policy-plan.ts";
import { printTable } from "./report.ts";
import { curveOf, endOf, meanOf, rangeOf, seededRuns, spreadOf, thirdOf, writeRuns } from "./seeded-runs.ts";

const runs = await seededRuns<OffPolicyRun>({
  name: "off-policy",
  defaultSeeds: "1,2,3,4,5",
  wordsOf: (seed) => jobsOf([Number(seed)]).map(({ arm, noise }) => [arm, String(noise), seed]),
});
if (runs !== null) report(runs);

function report(runs: readonly OffPolicyRun[]): void {
  const arms = Object.keys(ARMS).map((arm) => ({ arm, own: runs.filter((run) => run.arm === arm) }));
  const cells = arms.flatMap(({ arm, own }) =>
    NOISES.map((noise) => ({ arm, noise, same: own.filter((run) => run.noise === noise) })),
  );
  printTable(
    "Reward of the trainer's weights; the end is the mean of the last three evaluations; mean over seeds (lowest to highest)",
    ["arm", "noise", "seeds", "a third in", "at the end", "gap to sampler", "clipped", "kept", "seconds"],
    cells
      .filter(({ same }) => same.length > 0)
      .map(({ arm, noise, same }) => [
        ...[arm, String(noise), String(same.length)],
        ...[rangeOf(same.map(thirdOf)), rangeOf(same.map(endOf))],
        ...(["samplerGap", "clipShare", "keptShare", "seconds"] as const).map((key) => meanText(same, key)),
      ]),
  );
  const file = new URL("../docs/images/off-policy.svg", import.meta.url);
  writeFileSync(file, curveFigure(figureOf(arms)));
  writeRuns(
    "off-policy",
    cells.flatMap(({ same }) => same),
  );
}

/** The curves at the largest noise, and where the arms end at every noise. */
function figureOf(arms: readonly { readonly arm: string; readonly own: readonly OffPolicyRun[] }[]) {
  const noisiest = NOISES.at(-1)!;
  const overSteps = arms.map(({ arm, own }): Curve => {
    const shown = own.filter(({ noise }) => noise === noisiest || own.every((run) => run.noise === 0));
    return curveOf(arm, shown);
  });
  const overNoise = arms.map(({ arm, own }): Curve => {
    const xs = NOISES.filter((noise) => own.some((run) => run.noise === noise));
    const points = xs.map((x) => ({ x, ...spreadOf(own.filter(({ noise }) => noise === x).map(endOf)) }));
    return { name: arm, points };
  });
  return {
    title: "Reward with tokens that are 4 to 7 steps old, from inexact weights",
    panels: [
      { title: `noise ${noisiest}, step by step`, x: "step", curves: overSteps },
      { title: "at the end, by noise", x: "noise on the engine's weights", curves: overNoise },
    ],
  };
}

function meanText(runs: readonly OffPolicyRun[], key: "samplerGap" | "clipShare" | "keptShare" | "seconds"): string {
  const known = runs.flatMap((run) => run[key] ?? []);
  return known.length === 0 ? "-" : meanOf(known).toFixed(2);
}
