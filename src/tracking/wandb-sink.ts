/**
 * Metrics to Weights & Biases, or to a server that speaks its protocol.
 *
 * There is no documented way to send metrics without its own client, so this uses the two calls that the client makes: the GraphQL
 * mutation `upsertBucket` to open or find the run, and `file_stream` to append lines to its history. A line has a number, so a batch
 * that is sent twice is there once. The run is found again by its id, and goes on after the lines that the server has.
 */

import { z } from "zod";
import { withTimeLimit } from "../errors/time-limit.ts";
import { type DeliveryOptions, DeliveryQueue, DeliveryRefused } from "./delivery-queue.ts";
import type { OpenSink, SinkContext } from "./metric-sink.ts";
import { requestJson } from "./post-json.ts";
import type { MetricRecord, RunStatus } from "./run-record.ts";

/** The project and server that a run is sent to. */
export interface WandbOptions {
  readonly key: string;
  readonly project: string;
  /** A user or team. Default: the owner of the key. */
  readonly entity?: string;
  /** Default https://api.wandb.ai. */
  readonly baseUrl?: string;
  readonly delivery?: DeliveryOptions;
}

/** A sink for Weights & Biases. */
export function wandbSink(options: WandbOptions): OpenSink {
  return (context) => {
    const client = new WandbClient(options, context);
    const queue = new DeliveryQueue({
      name: "Weights & Biases",
      send: (batch, signal) => client.send(batch, signal),
      warn: context.warn,
      ...(options.delivery && { options: options.delivery }),
    });
    return {
      log: (record) => queue.push(record),
      close: async (status) => {
        if (await queue.close())
          await client.finish(status).catch((cause: Error) => context.warn(`Weights & Biases: ${cause.message}`));
      },
    };
  };
}

/** Where a run is, and the number of its next line. */
interface OpenRun {
  readonly path: string;
  nextLine: number;
}

const UPSERT = `mutation UpsertBucket($name: String!, $project: String, $entity: String, $displayName: String,
  $config: JSONString, $tags: [String!], $host: String) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName,
    config: $config, tags: $tags, host: $host}) {
    bucket { name historyLineCount project { name entity { name } } }
  }
}`;

class WandbClient {
  readonly #options: WandbOptions;
  readonly #context: SinkContext;
  #run: OpenRun | null = null;
  #summary: Record<string, number> = {};

  constructor(options: WandbOptions, context: SinkContext) {
    this.#options = options;
    this.#context = context;
  }

  async send(batch: readonly MetricRecord[], signal: AbortSignal): Promise<void> {
    this.#run ??= await this.#open(signal);
    const startedMs = Date.parse(this.#context.info.startedAt);
    const lines = batch.map((record) => toLine(toHistory(record, startedMs)));
    for (const { metrics } of batch) Object.assign(this.#summary, metrics);
    const files = {
      "wandb-history.jsonl": { offset: this.#run.nextLine, content: lines },
      // One line that is always written over.
      "wandb-summary.json": { offset: 0, content: [toLine(this.#summary)] },
    };
    await this.#post(this.#run.path, { files }, signal);
    this.#run.nextLine += lines.length;
  }

  async finish(status: RunStatus): Promise<void> {
    if (this.#run === null) return;
    const exitcode = status === "finished" ? 0 : 1;
    const { path } = this.#run;
    await withTimeLimit(5000, undefined, (signal) => this.#post(path, { complete: true, exitcode }, signal));
  }

  async #open(signal: AbortSignal): Promise<OpenRun> {
    const { info, config } = this.#context;
    const { project, entity } = this.#options;
    const variables = {
      name: info.id.replaceAll("-", ""),
      project,
      entity: entity ?? null,
      displayName: info.name,
      config: JSON.stringify(wandbConfig(config)),
      tags: info.tags,
      host: info.host,
    };
    const answer = answerSchema.parse(await this.#post("/graphql", { query: UPSERT, variables }, signal));
    if (answer.errors.length > 0) throw new DeliveryRefused(answer.errors.map(({ message }) => message).join("; "));
    const { bucket } = answer.data!.upsertBucket;
    const place = [bucket.project.entity.name, bucket.project.name, bucket.name].map(encodeURIComponent).join("/");
    return { path: `/files/${place}/file_stream`, nextLine: bucket.historyLineCount ?? 0 };
  }

  #post(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    const { baseUrl = "https://api.wandb.ai", key } = this.#options;
    const authorization = `Basic ${Buffer.from(`api:${key}`).toString("base64")}`;
    return requestJson({ url: `${baseUrl.replace(/\/$/, "")}${path}`, body, signal, headers: { authorization } });
  }
}

function toHistory({ step, timeMs, metrics }: MetricRecord, startedMs: number): Readonly<Record<string, number>> {
  return {
    ...metrics,
    _step: step,
    _timestamp: timeMs / 1000,
    _runtime: Math.max(0, (timeMs - startedMs) / 1000),
  };
}

/** JSON with NaN, Infinity and -Infinity as bare words, as the client writes them. */
function toLine(values: Readonly<Record<string, number>>): string {
  return `{${Object.entries(values)
    .map(([name, value]) => `${JSON.stringify(name)}:${value}`)
    .join(",")}}`;
}

/** Each key of the config as `{ value }`, as the server keeps it. */
function wandbConfig(config: unknown): Record<string, { readonly value: unknown }> {
  const entries = typeof config === "object" && config !== null ? Object.entries(config) : [];
  return Object.fromEntries(entries.map(([key, value]) => [key, { value }]));
}

const answerSchema = z.object({
  errors: z.array(z.object({ message: z.string() })).default([]),
  data: z
    .object({
      upsertBucket: z.object({
        bucket: z.object({
          name: z.string(),
          historyLineCount: z.number().nullish(),
          project: z.object({ name: z.string(), entity: z.object({ name: z.string() }) }),
        }),
      }),
    })
    .nullish(),
});
