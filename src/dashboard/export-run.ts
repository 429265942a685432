/**
 * A run as one HTML file that opens without a server: the page, its styles, and what it would ask for.
 *
 * In: the folder of a run. Out: the text of the file. Charts are complete; of trajectories a number of whole groups is kept, spread
 * over the run. The file loads nothing, and runs no script but the page's, whatever a model wrote.
 */
import { createHash } from "node:crypto";
import { basename, dirname, extname, resolve } from "node:path";
import { type FastifyInstance, fastify } from "fastify";
import { RerollError } from "../errors/reroll-error.ts";
import type {
  RunAnswer,
  SeriesAnswer,
  SpansAnswer,
  SummaryAnswer,
  TrajectoriesAnswer,
  TrajectoryAnswer,
  TrajectoryRow,
} from "./answers.ts";
import { EXPORTED_ID, type ExportedRun } from "./exported-run.ts";
import { readPage } from "./page-files.ts";
import { addRunRoutes } from "./run-routes.ts";
import { RunStore } from "./run-store.ts";
import { type OpenTokenizer, TokenTexts } from "./token-texts.ts";

interface ExportOptions {
  readonly folder: string;
  /** The most trajectories to keep; whole groups, so it may be a few less. */
  readonly maxTrajectories: number;
  readonly openTokenizer: OpenTokenizer;
}

/** The file, and what of the run is in it. */
interface Exported {
  readonly html: string;
  readonly numTrajectories: number;
  readonly numTotal: number;
}

export async function exportRun({ folder, maxTrajectories, openTokenizer }: ExportOptions): Promise<Exported> {
  const root = dirname(resolve(folder));
  const app = fastify();
  addRunRoutes(app, new RunStore(root), new TokenTexts(openTokenizer));
  try {
    const { numTotal, ...exported } = await collect(app, basename(resolve(folder)), maxTrajectories);
    return { html: pageWith(exported), numTrajectories: exported.rows.length, numTotal };
  } finally {
    await app.close();
  }
}

/** Points of a metric, and the width of the timeline: more than a screen shows, so that one can zoom in. */
const NUM_POINTS = 2000;
const TIMELINE_WIDTH = 6000;
/** Names in one request. */
const NAMES_AT_ONCE = 100;

async function collect(
  app: FastifyInstance,
  key: string,
  maxTrajectories: number,
): Promise<ExportedRun & { readonly numTotal: number }> {
  const ask = async <Answer>(rest = "", query: Readonly<Record<string, unknown>> = {}): Promise<Answer> => {
    const path = `/api/runs/${encodeURIComponent(key)}${rest}`;
    const reply = await app.inject({ url: path, query: query as Record<string, string> });
    if (reply.statusCode === 200) return reply.json<Answer>();
    const { code, message } = reply.json<{ code?: string; message: string }>();
    throw new RerollError(code === "RUN_NOT_FOUND" ? code : "FILE_INVALID", message);
  };
  const run = await ask<RunAnswer>();
  const names = run.metrics.map(({ name }) => name);
  const series: SeriesAnswer["series"][number][] = [];
  for (let i = 0; i < names.length; i += NAMES_AT_ONCE) {
    const query = { name: names.slice(i, i + NAMES_AT_ONCE), points: NUM_POINTS };
    series.push(...(await ask<SeriesAnswer>("/series", query)).series);
  }
  const all = await listAll(ask);
  const rows = spreadGroups(all, maxTrajectories);
  const trajectories: Record<string, TrajectoryAnswer> = {};
  for (const { step, id } of rows)
    trajectories[`${step}/${id}`] = await ask(`/trajectories/${step}/${encodeURIComponent(id)}`);
  const [summary, spans] = await Promise.all([
    ask<SummaryAnswer>("/summary"),
    ask<SpansAnswer>("/spans", { width: TIMELINE_WIDTH }),
  ]);
  return { run, summary, series, rows, trajectories, spans, numTotal: all.length };
}

type Ask = <Answer>(rest?: string, query?: Readonly<Record<string, unknown>>) => Promise<Answer>;

const PAGE_ROWS = 500;

async function listAll(ask: Ask): Promise<TrajectoryRow[]> {
  const listed: TrajectoryRow[] = [];
  for (;;) {
    const query = { order: "up", offset: listed.length, limit: PAGE_ROWS };
    const { rows, numMatching, isReading } = await ask<TrajectoriesAnswer>("/trajectories", query);
    // Files are read for a while before all of them are known, and rows may move until then.
    if (isReading) listed.length = 0;
    else listed.push(...rows);
    if (!isReading && (listed.length >= numMatching || rows.length === 0)) return listed;
  }
}

/** Whole groups, evenly over the run, with the first and the last one, as many as there is room for. */
export function spreadGroups(rows: readonly TrajectoryRow[], max: number): readonly TrajectoryRow[] {
  const byGroup = new Map<string, TrajectoryRow[]>();
  for (const row of rows) {
    const key = `${row.step} ${row.groupId}`;
    byGroup.set(key, [...(byGroup.get(key) ?? []), row]);
  }
  const groups = [...byGroup.values()];
  for (let count = groups.length; count > 0; count--) {
    const chosen = Array.from(
      { length: count },
      (_, i) => groups[count === 1 ? groups.length - 1 : Math.round((i * (groups.length - 1)) / (count - 1))]!,
    ).flat();
    if (chosen.length <= max) return chosen;
  }
  return [];
}

function pageWith(exported: ExportedRun): string {
  const files = readPage();
  const page = files.get("index.html");
  const all = (ending: string) => [...files].flatMap(([name, text]) => (extname(name) === ending ? [text] : []));
  const script = all(".mjs").join("\n").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  const hash = createHash("sha256").update(script).digest("base64");
  const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`;
  const icon = Buffer.from(all(".svg")[0] ?? "").toString("base64");
  const head = [
    `<meta http-equiv="content-security-policy" content="${policy}" />`,
    `<link rel="icon" href="data:image/svg+xml;base64,${icon}" />`,
    ...all(".css").map((css) => `<style>${css}</style>`),
    // In JSON a "<" stands only inside of texts, where it may be written by its number: no text ends the element.
    `<script type="application/json" id="${EXPORTED_ID}">${JSON.stringify(exported).replaceAll("<", "\\u003c")}</script>`,
    `<script type="module">${script}</script>`,
  ].join("\n    ");
  return (page ?? "")
    .replace(/^\s*<(?:link|script)\b[^>]*>(?:<\/script>)?\n/gm, "")
    .replace("</head>", () => `${head}\n  </head>`);
}
