/**
 * The routes that the page asks for: runs, their metrics, trajectories and timeline. Their answers are typed in
 * `answers.ts`.
 */
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { redact } from "../errors/redact.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { runFiles } from "../tracking/run-record.ts";
import type {
  RunAnswer,
  RunsAnswer,
  SeriesAnswer,
  SpansAnswer,
  SummaryAnswer,
  TrajectoriesAnswer,
  TrajectoryAnswer,
} from "./answers.ts";
import { readPlainJson } from "./open-plain-file.ts";
import { readPlainWarnings } from "./read-plain-warnings.ts";
import { readWorkers } from "./read-workers.ts";
import type { RunStore } from "./run-store.ts";
import type { TokenTexts } from "./token-texts.ts";
import { filterTrajectories } from "./trajectory-filter.ts";
import { trajectoryQuery } from "./trajectory-query.ts";

const MAX_CONFIG_BYTES = 4 << 20;
const SPARKLINE_POINTS = 60;
/** After this long, a list is answered with what has been read so far. */
const MAX_INDEX_MS = 400;

const runAddress = z.object({ run: z.string() });
const trajectoryAddress = runAddress.extend({ step: z.coerce.number().int().min(0), id: z.string() });
const bound = z.coerce.number().optional();
const seriesQuery = z.strictObject({
  name: z.preprocess((names) => (typeof names === "string" ? [names] : names), z.array(z.string()).max(200)),
  points: z.coerce.number().int().min(2).max(20_000).default(1000),
  smoothing: z.coerce.number().min(0).max(0.999).default(0),
  axis: z.enum(["step", "time"]).default("step"),
  from: bound,
  to: bound,
});
const spansQuery = z.strictObject({
  from: bound,
  to: bound,
  width: z.coerce.number().int().min(10).max(10_000).default(1000),
});

/** Adds the routes below `/api`, all but the events. */
export function addRunRoutes(app: FastifyInstance, store: RunStore, texts: TokenTexts | null): void {
  app.get("/api/runs", async (): Promise<RunsAnswer> => ({ runs: await store.list() }));

  app.get("/api/runs/:run", async ({ params }): Promise<RunAnswer> => {
    const { key, info, folder, metrics } = await store.open(parse(runAddress, params).run);
    const [config, warnings] = await Promise.all([
      readPlainJson(join(folder, runFiles.config), MAX_CONFIG_BYTES),
      readPlainWarnings(folder),
      metrics.file.update(),
    ]);
    return { key, info, config: redact(config ?? null), warnings: warnings.values, metrics: metrics.names() };
  });

  app.get("/api/runs/:run/summary", async ({ params }): Promise<SummaryAnswer> => {
    const { metrics } = await store.open(parse(runAddress, params).run);
    await metrics.file.update();
    const name = metrics.last("reward/mean") === null ? "episode/return" : "reward/mean";
    const points = metrics.series(name, { maxPoints: SPARKLINE_POINTS, smoothing: 0, axis: "step" });
    return { rewards: points?.values ?? [], lastStep: metrics.lastStep, lastReward: metrics.last(name) };
  });

  app.get("/api/runs/:run/series", async ({ params, query }): Promise<SeriesAnswer> => {
    const { name: names, points: maxPoints, ...rest } = parse(seriesQuery, query);
    const { metrics } = await store.open(parse(runAddress, params).run);
    await metrics.file.update();
    return { series: names.flatMap((name) => metrics.series(name, { maxPoints, ...rest }) ?? []) };
  });

  app.get("/api/runs/:run/trajectories", async ({ params, query }): Promise<TrajectoriesAnswer> => {
    const filter = parse(trajectoryQuery, query);
    const { trajectories } = await store.open(parse(runAddress, params).run);
    await Promise.race([trajectories.update(), setTimeout(MAX_INDEX_MS)]);
    const { isReading } = trajectories;
    return { ...filterTrajectories(trajectories.rows(), filter), isReading, steps: trajectories.steps() };
  });

  app.get("/api/runs/:run/trajectories/:step/:id", async ({ params }): Promise<TrajectoryAnswer> => {
    const { run, step, id } = parse(trajectoryAddress, params);
    const { folder, trajectories } = await store.open(run);
    await trajectories.update();
    const record = await trajectories.record(step, id);
    const group = trajectories.group(step, record.groupId);
    return {
      ...{ record, group },
      advantage: group.find((row) => row.id === id)?.advantage ?? null,
      isAdvantageRecorded: record.advantage !== undefined,
      texts: (await texts?.ofRecord(folder, record)) ?? null,
    };
  });

  app.get("/api/runs/:run/spans", async ({ params, query }): Promise<SpansAnswer> => {
    const { from: fromMs, to: toMs, width } = parse(spansQuery, query);
    const { spans, folder } = await store.open(parse(runAddress, params).run);
    const [workers] = await Promise.all([readWorkers(folder), spans.file.update()]);
    return spans.window({ fromMs, toMs, width }, workers);
  });
}

function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const { data, error } = schema.safeParse(value);
  if (error === undefined) return data;
  throw new RerollError("INVALID_OPTION", `The request cannot be read: ${z.prettifyError(error)}`);
}
