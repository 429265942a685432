/** docs/reference/metrics.md: every metric with its unit and meaning, from the table in src/flow/metrics.ts. */
import { metricTable } from "../../src/flow/metrics.ts";

/** The text of docs/reference/metrics.md. */
export function metricReference(): string {
  const rows = [...metricTable].map(([name, { unit, better, meaning }]) => ({
    stage: name.slice(0, name.indexOf("/")),
    text: `| \`${name}\` | ${unit} | ${better === "neither" ? "" : better} | ${meaning.replaceAll("|", "\\|")} |`,
  }));
  const stages = [...new Set(rows.map(({ stage }) => stage))];
  return `${[
    "<!-- Made by `npm run generate` from src/flow/metrics.ts. Do not edit. -->",
    "# Metrics",
    "What a run writes to `metrics.jsonl` and shows. `<name>` stands for anything. A share is from 0 to 1; a nat is a " +
      "natural log-probability, or a difference of two. How to read them in a run: [guide](../guides/runs.md).",
    ...stages.flatMap((stage) => [
      `## ${stage}`,
      [
        "| metric | unit | better | meaning |",
        "|---|---|---|---|",
        ...rows.filter((row) => row.stage === stage).map(({ text }) => text),
      ].join("\n"),
    ]),
  ].join("\n\n")}\n`;
}
