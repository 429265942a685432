/**
 * A page that holds its run: written by `reroll dashboard --export`, opened from a file.
 *
 * In: the address of an answer, as for the server. Out: the answer, from what the file holds.
 */
import type { RunsAnswer, Series, SeriesAnswer, TrajectoriesAnswer } from "../../src/dashboard/answers.ts";
import { EXPORTED_ID, type ExportedRun } from "../../src/dashboard/exported-run.ts";
import { seriesWindow } from "../../src/dashboard/series-window.ts";
import { filterTrajectories } from "../../src/dashboard/trajectory-filter.ts";
import type { TrajectoryQuery } from "../../src/dashboard/trajectory-query.ts";
import { linkTo } from "./route.ts";

const text = document.getElementById(EXPORTED_ID)?.textContent ?? null;
const exported: ExportedRun | null = text === null ? null : JSON.parse(text);

/** Whether the page has no server to ask. */
export const isExported = exported !== null;

/** Begins with the run that the file holds. */
export function openExported(): void {
  if (exported !== null && location.hash === "") location.replace(linkTo(["runs", exported.run.key]));
}

/** The answer that a server would give, or an error where the file does not hold it. */
export function answerFromFile(address: string): unknown {
  if (exported === null) throw new Error("internal: the page holds no run.");
  const [path = "", search = ""] = address.split("?");
  const query = new URLSearchParams(search);
  const [, , key, what, ...rest] = path.split("/").map(decodeURIComponent);
  if (key === undefined) return { runs: [exported.run] } satisfies RunsAnswer;
  if (key !== exported.run.key) throw new Error(`This file holds the run "${exported.run.key}" alone.`);
  switch (what) {
    case undefined:
      return exported.run;
    case "summary":
      return exported.summary;
    case "series":
      return { series: query.getAll("name").flatMap((name) => seriesOf(exported, name, query)) } satisfies SeriesAnswer;
    case "spans":
      return exported.spans;
    case "trajectories": {
      if (rest.length === 0) return listOf(exported, query);
      const found = exported.trajectories[rest.join("/")];
      if (found === undefined) throw new Error("This trajectory is not in the file: it holds some groups of the run.");
      return found;
    }
    default:
      throw new Error(`This file has no answer for ${path}.`);
  }
}

function seriesOf({ series }: ExportedRun, wanted: string, query: URLSearchParams): Series[] {
  const found = series.find(({ name }) => name === wanted);
  if (found === undefined) return [];
  const values = Float64Array.from(found.values, (value) => value ?? Number.NaN);
  return [
    seriesWindow(
      wanted,
      { ...found, values },
      {
        maxPoints: numberOf(query, "points") ?? 1000,
        smoothing: numberOf(query, "smoothing") ?? 0,
        axis: query.get("axis") === "time" ? "time" : "step",
        from: numberOf(query, "from"),
        to: numberOf(query, "to"),
      },
    ),
  ];
}

function listOf({ rows }: ExportedRun, query: URLSearchParams): TrajectoriesAnswer {
  const bounds = ["stepMin", "stepMax", "rewardMin", "rewardMax", "tokensMin", "tokensMax"] as const;
  const filter = {
    ...Object.fromEntries(bounds.map((name) => [name, numberOf(query, name)])),
    end: query.get("end") ?? undefined,
    domain: query.get("domain") ?? undefined,
    fate: (query.get("fate") ?? undefined) as TrajectoryQuery["fate"],
    sort: (query.get("sort") ?? "step") as TrajectoryQuery["sort"],
    order: (query.get("order") ?? "down") as TrajectoryQuery["order"],
    offset: numberOf(query, "offset") ?? 0,
    limit: numberOf(query, "limit") ?? 100,
  };
  const steps = [...new Set(rows.map(({ step }) => step))];
  return { ...filterTrajectories([...rows], filter), isReading: false, steps };
}

function numberOf(query: URLSearchParams, name: string): number | undefined {
  const given = query.get(name);
  return given === null ? undefined : Number(given);
}
