/** What a run tells of itself while it runs. That it can be killed and resumed to the bit is shown in ../runs/resume.test.ts. */
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Metrics } from "../../src/flow/metrics.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { runTraining } from "../../src/run/run-training.ts";
import { inFolder } from "../runs/lake-run.ts";
import { lakeFile } from "./lake-file.ts";

/** What the two services answer, as much of it as a run needs. */
const answers: readonly (readonly [path: RegExp, body: object])[] = [
  [/get-by-name/, { experiment: { experiment_id: "3" } }],
  [/runs\/create/, { run: { info: { run_id: "r1" } } }],
  [/graphql/, { data: { upsertBucket: { bucket: { name: "b", project: { name: "p", entity: { name: "e" } } } } } }],
];

test("trackers get the metrics of every step: the folder, TensorBoard, MLflow and wandb", async () => {
  const calls: { readonly path: string; readonly body: string }[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    calls.push({ path: request.url!, body: Buffer.concat(chunks).toString() });
    response.end(JSON.stringify(answers.find(([path]) => path.test(request.url!))?.[1] ?? {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    await inFolder(async (root) => {
      const tracking = { folder: root, tensorboard: true, mlflow: { url }, wandb: { project: "p", url } };
      const prepared = await prepareRun(lakeFile({ name: "told", tracking, loop: { type: "sync", steps: 2 } }), [], {});
      await runTraining(prepared, {
        signal: new AbortController().signal,
        ...{ version: "test", runFile: "run.ts", command: "reroll", console: null },
        environment: { WANDB_API_KEY: "a key of nobody" },
      });
      const folder = join(root, "told");
      const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
      const told = lines.map((line) => (JSON.parse(line) as { metrics: Metrics }).metrics);
      expect(told).toHaveLength(2);
      const losses = told.map((metrics, i) => ({ step: i + 1, loss: metrics["train/loss"]! }));

      const [events] = readdirSync(join(folder, "tensorboard"));
      const bytes = readFileSync(join(folder, "tensorboard", events!), "latin1");
      expect(bytes.split("train/loss_policy")).toHaveLength(1 + 2);

      const batches = calls.filter(({ path }) => path.endsWith("runs/log-batch")).map(({ body }) => JSON.parse(body));
      const points = batches.flatMap(({ metrics = [] }) => metrics as { key: string; value: number; step: number }[]);
      const mlflow = points.filter(({ key }) => key === "train/loss").map(({ step, value }) => ({ step, loss: value }));
      expect(mlflow).toEqual(losses);

      const streams = calls.filter(({ path }) => path.endsWith("file_stream")).map(({ body }) => JSON.parse(body));
      const history = streams.flatMap(({ files }) => (files?.["wandb-history.jsonl"].content ?? []) as string[]);
      const wandb = history.map((line) => JSON.parse(line) as Metrics);
      expect(wandb.map((line) => ({ step: line._step, loss: line["train/loss"] }))).toEqual(losses);
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
