/**
 * Metrics to an MLflow server, over its REST API (version 2.0).
 *
 * The run is found again by its tag `reroll.run_id`, so that a resumed run goes on in the same place.
 */

import { z } from "zod";
import { withTimeLimit } from "../errors/time-limit.ts";
import { type DeliveryOptions, DeliveryQueue } from "./delivery-queue.ts";
import { flattenConfig } from "./flatten-config.ts";
import type { OpenSink, SinkContext } from "./metric-sink.ts";
import { requestJson } from "./post-json.ts";
import type { MetricRecord, RunStatus } from "./run-record.ts";

/** The server and the experiment that a run is sent to. */
export interface MlflowOptions {
  /** Address of the server, such as http://localhost:5000. */
  readonly baseUrl: string;
  readonly experiment: string;
  /** A bearer token, where the server asks for one. */
  readonly key?: string;
  readonly delivery?: DeliveryOptions;
}

/** Most that MLflow accepts in one request. */
const MAX_METRICS = 1000;
const MAX_PARAMS = 100;
const MAX_PARAM_LENGTH = 6000;

/** A sink for an MLflow server. */
export function mlflowSink(options: MlflowOptions): OpenSink {
  return (context) => {
    const client = new MlflowClient(options, context);
    const queue = new DeliveryQueue({
      name: "MLflow",
      send: (batch, signal) => client.send(batch, signal),
      warn: context.warn,
      ...(options.delivery && { options: options.delivery }),
    });
    return {
      log: (record) => queue.push(record),
      close: async (status) => {
        if (await queue.close())
          await client.finish(status).catch((cause: Error) => context.warn(`MLflow: ${cause.message}`));
      },
    };
  };
}

class MlflowClient {
  readonly #options: MlflowOptions;
  readonly #context: SinkContext;
  #runId: string | null = null;

  constructor(options: MlflowOptions, context: SinkContext) {
    this.#options = options;
    this.#context = context;
  }

  async send(batch: readonly MetricRecord[], signal: AbortSignal): Promise<void> {
    const runId = await this.#openRun(signal);
    const metrics = batch.flatMap(toMetrics);
    for (let start = 0; start < metrics.length; start += MAX_METRICS) {
      await this.#post("runs/log-batch", { run_id: runId, metrics: metrics.slice(start, start + MAX_METRICS) }, signal);
    }
  }

  async finish(status: RunStatus): Promise<void> {
    if (this.#runId === null) return;
    const word = { running: "RUNNING", finished: "FINISHED", failed: "FAILED", interrupted: "KILLED" }[status];
    const body = { run_id: this.#runId, status: word, end_time: Date.now() };
    await withTimeLimit(5000, undefined, (signal) => this.#post("runs/update", body, signal));
  }

  async #openRun(signal: AbortSignal): Promise<string> {
    if (this.#runId !== null) return this.#runId;
    const experiment = await this.#openExperiment(signal);
    const { info } = this.#context;
    const found = await this.#post(
      "runs/search",
      { experiment_ids: [experiment], filter: `tags.\`reroll.run_id\` = '${info.id}'`, max_results: 1 },
      signal,
    );
    const known = searchSchema.parse(found).runs[0]?.info.run_id;
    this.#runId = known ?? (await this.#createRun(experiment, signal));
    return this.#runId;
  }

  async #createRun(experiment: string, signal: AbortSignal): Promise<string> {
    const { info, config } = this.#context;
    const tags = {
      "reroll.run_id": info.id,
      "reroll.tags": info.tags.join(", "),
      "reroll.folder": this.#context.folder,
    };
    const answer = await this.#post(
      "runs/create",
      {
        experiment_id: experiment,
        run_name: info.name,
        start_time: Date.parse(info.startedAt),
        tags: Object.entries(tags).map(([key, value]) => ({ key, value })),
      },
      signal,
    );
    const runId = runSchema.parse(answer).run.info.run_id;
    const values = { ...flattenConfig(config), seed: info.seed, model: info.model, recipe: info.recipe };
    const params = Object.entries(values).map(([key, value]) => ({
      key: safeName(key),
      value: String(value).slice(0, MAX_PARAM_LENGTH),
    }));
    for (let start = 0; start < params.length; start += MAX_PARAMS) {
      await this.#post("runs/log-batch", { run_id: runId, params: params.slice(start, start + MAX_PARAMS) }, signal);
    }
    return runId;
  }

  async #openExperiment(signal: AbortSignal): Promise<string> {
    const name = this.#options.experiment;
    const found = await requestJson({
      url: this.#url(`experiments/get-by-name?experiment_name=${encodeURIComponent(name)}`),
      method: "GET",
      headers: this.#headers(),
      isOptional: true,
      signal,
    });
    if (found !== null) return foundSchema.parse(found).experiment.experiment_id;
    return createdSchema.parse(await this.#post("experiments/create", { name }, signal)).experiment_id;
  }

  #post(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    return requestJson({ url: this.#url(path), headers: this.#headers(), body, signal });
  }

  #url(path: string): string {
    return `${this.#options.baseUrl.replace(/\/$/, "")}/api/2.0/mlflow/${path}`;
  }

  #headers(): Readonly<Record<string, string>> {
    const { key } = this.#options;
    return key === undefined ? {} : { authorization: `Bearer ${key}` };
  }
}

/** MLflow keeps finite numbers only. */
function toMetrics({ step, timeMs, metrics }: MetricRecord): readonly Record<string, unknown>[] {
  return Object.entries(metrics)
    .filter(([, value]) => Number.isFinite(value))
    .map(([key, value]) => ({ key: safeName(key), value, timestamp: Math.round(timeMs), step }));
}

/** Names may hold letters, digits, and a few signs. */
function safeName(name: string): string {
  return name.replace(/[^\w\-. /]/g, "_").slice(0, 250);
}

const runInfo = z.object({ info: z.object({ run_id: z.string() }) });
const runSchema = z.object({ run: runInfo });
const searchSchema = z.object({ runs: z.array(runInfo).default([]) });
const createdSchema = z.object({ experiment_id: z.string() });
const foundSchema = z.object({ experiment: createdSchema });
