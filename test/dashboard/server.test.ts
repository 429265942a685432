/** The dashboard's server over HTTP: what it answers, and what it refuses. */
import { appendFileSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDashboard } from "../../src/cli/open-dashboard.ts";
import type {
  RunAnswer,
  RunsAnswer,
  SeriesAnswer,
  SpansAnswer,
  TrajectoriesAnswer,
  TrajectoryAnswer,
} from "../../src/dashboard/answers.ts";
import { type Dashboard, startDashboard } from "../../src/dashboard/start-dashboard.ts";
import { copyRecordedRuns, metricLine, trajectory, writeRun, writeTrajectories } from "./dashboard-run.ts";

let root: string;
let dashboard: Dashboard;

beforeAll(async () => {
  root = copyRecordedRuns();
  dashboard = await openDashboard({ root });
});

afterAll(async () => {
  await dashboard.close();
  rmSync(root, { recursive: true });
});

async function get<Data>(path: string): Promise<Data> {
  const response = await fetch(`${dashboard.url}${path}`);
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as Data;
}

async function failure(path: string): Promise<{ status: number; code: string; message: string }> {
  const response = await fetch(`${dashboard.url}${path}`);
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, ...error };
}

describe("what it answers", () => {
  test("the list holds both recorded runs, the newest first", async () => {
    const { runs } = await get<RunsAnswer>("api/runs");
    expect(runs.map(({ key, info }) => [key, info.status, info.recipe])).toEqual([
      ["frozen-lake", "finished", "gigpo"],
      ["sokoban", "finished", "gigpo"],
    ]);
  });

  test("a run comes with its config, its warnings and what its metrics mean", async () => {
    const { config, warnings, metrics } = await get<RunAnswer>("api/runs/sokoban");
    expect(config).toMatchObject({ name: "sokoban", seed: 3 });
    expect(warnings.map(({ code, step }) => [code, step])).toEqual([["truncation", 6]]);
    expect(metrics.find(({ name }) => name === "reward/mean")).toMatchObject({
      numPoints: 12,
      info: { better: "higher", unit: "reward" },
    });
  });

  test("trajectories can be filtered and paged, and give advantages within their group", async () => {
    const { rows, numMatching, numTotal } = await get<TrajectoriesAnswer>(
      "api/runs/sokoban/trajectories?stepMin=12&end=completed&sort=reward&limit=1",
    );
    expect([rows.length, numTotal]).toEqual([1, 36]);
    expect(numMatching).toBeLessThan(12);
    const { record, group, advantage, isAdvantageRecorded } = await get<TrajectoryAnswer>(
      `api/runs/sokoban/trajectories/12/${rows[0]!.id}`,
    );
    const mean = group.reduce((sum, { reward }) => sum + reward, 0) / group.length;
    expect(advantage).toBeCloseTo(record.reward.total - mean, 10);
    expect(isAdvantageRecorded).toBe(false);
  });

  test("tokens come as texts that join to the reply", async () => {
    const { record, texts } = await get<TrajectoryAnswer>("api/runs/sokoban/trajectories/12/66-0");
    expect(texts?.[0]?.reply.join("")).toBe(`${record.turns[0]?.replyText}<|im_end|>`);
    expect(texts?.[0]?.reply.length).toBe(record.turns[0]?.tokenIds.length);
  });

  test("a tokenizer that cannot be read leaves the tokens as numbers", async () => {
    const folder = writeRun(root, "bad-tokenizer");
    mkdirSync(join(folder, "model"));
    writeFileSync(join(folder, "model/tokenizer.json"), "{");
    writeTrajectories(folder, 1, [trajectory({ step: 1, id: "a" })]);
    expect((await get<TrajectoryAnswer>("api/runs/bad-tokenizer/trajectories/1/a")).texts).toBe(null);
  });

  test("the timeline says how idle each worker was", async () => {
    const { idle, spans, range } = await get<SpansAnswer>("api/runs/sokoban/spans");
    expect(idle.map(({ worker }) => worker)).toEqual(["engine", "environments", "trainer", "loop"]);
    for (const { share } of idle) expect(share).toBeGreaterThan(0.1);
    expect(spans.every(({ startMs, endMs }) => startMs >= range![0] && endMs <= range![1])).toBe(true);
  });

  test("events tell of a new step, and go on after the byte that a page knows", async () => {
    const folder = writeRun(root, "live", { status: "running" });
    writeFileSync(join(folder, "metrics.jsonl"), metricLine(1, { "reward/mean": 0.5 }));
    const response = await fetch(`${dashboard.url}api/runs/live/events`);
    const reader = readEvents(response);
    expect((await reader.next()).value).toMatchObject({ name: "info" });
    appendFileSync(join(folder, "metrics.jsonl"), metricLine(2, { "reward/mean": 0.75 }));
    const event = (await reader.next()).value!;
    expect(event).toMatchObject({ name: "metrics", data: { step: 2, numNew: 1 } });
    await reader.return(undefined);
    const again = await fetch(`${dashboard.url}api/runs/live/events`, { headers: { "last-event-id": "1" } });
    const missed = readEvents(again);
    await missed.next();
    expect((await missed.next()).value).toMatchObject({ name: "metrics", id: event.id });
    await missed.return(undefined);
  });
});

describe("files that are not as they should be", () => {
  test("a torn last line is not there until it is whole", async () => {
    const folder = writeRun(root, "torn");
    const file = join(folder, "metrics.jsonl");
    const [first, second] = [metricLine(1, { "reward/mean": 1 }), metricLine(2, { "reward/mean": 2 })];
    writeFileSync(file, first + second.slice(0, 30));
    const values = async () =>
      (await get<SeriesAnswer>("api/runs/torn/series?name=reward/mean")).series.map(({ values: all }) => all);
    expect(await values()).toEqual([[1]]);
    appendFileSync(file, second.slice(30));
    expect(await values()).toEqual([[1, 2]]);
  });

  test("a file that was written anew is read anew", async () => {
    const folder = writeRun(root, "resumed");
    const lines = [1, 2, 3].map((step) => metricLine(step, { "reward/mean": step }));
    writeFileSync(join(folder, "metrics.jsonl"), lines.join(""));
    await get("api/runs/resumed/series?name=reward/mean");
    truncateSync(join(folder, "metrics.jsonl"), lines[0]!.length);
    const { series } = await get<SeriesAnswer>("api/runs/resumed/series?name=reward/mean");
    expect(series[0]?.values).toEqual([1]);
    rmSync(join(folder, "metrics.jsonl"));
    writeFileSync(
      join(folder, "metrics.jsonl"),
      [7, 8, 9].map((step) => metricLine(step, { "reward/mean": step })).join(""),
    );
    const again = await get<SeriesAnswer>("api/runs/resumed/series?name=reward/mean");
    expect(again.series[0]?.values).toEqual([7, 8, 9]);
  });

  test("NaN and the infinities are gaps", async () => {
    const folder = writeRun(root, "nan");
    const lines = ["NaN", 2, "-Infinity"].map((value, i) => metricLine(i, { "train/grad_norm": value }));
    writeFileSync(join(folder, "metrics.jsonl"), lines.join(""));
    const { series } = await get<SeriesAnswer>("api/runs/nan/series?name=train/grad_norm");
    expect(series[0]?.values).toEqual([null, 2, null]);
  });

  test("a line of 40 MB is passed over, and the others are shown", async () => {
    const folder = writeRun(root, "huge");
    const file = join(folder, "trajectories/step-000001.jsonl");
    const huge = trajectory({ step: 1, id: "huge" }, { replyText: "x".repeat(40 << 20) });
    const small = trajectory({ step: 1, id: "small" });
    writeFileSync(file, `${JSON.stringify(huge)}\n${JSON.stringify(small)}\nno json\n`);
    const list = () => get<TrajectoriesAnswer>("api/runs/huge/trajectories");
    let answer = await list();
    while (answer.isReading) answer = await list();
    expect(answer.rows.map(({ id }) => id)).toEqual(["small"]);
    expect(await failure("api/runs/huge/trajectories/1/huge")).toMatchObject({
      status: 404,
      code: "TRAJECTORY_NOT_FOUND",
    });
  });

  test("a config of 5 MB is refused with its size", async () => {
    const folder = writeRun(root, "long-config");
    writeFileSync(join(folder, "config.json"), JSON.stringify({ text: "x".repeat(5 << 20) }));
    const { status, message } = await failure("api/runs/long-config");
    expect(status).toBe(413);
    expect(message).toContain("At most 4194304");
  });

  test("a run that vanishes is said to be gone, also to those who follow it", async () => {
    const folder = writeRun(root, "short-lived");
    writeTrajectories(folder, 1, [trajectory({ step: 1, id: "a" })]);
    await get("api/runs/short-lived/trajectories");
    const reader = readEvents(await fetch(`${dashboard.url}api/runs/short-lived/events`));
    await reader.next();
    rmSync(folder, { recursive: true });
    expect((await reader.next()).value).toMatchObject({ name: "gone" });
    for (const path of ["", "/trajectories", "/trajectories/1/a", "/series?name=a", "/spans", "/events"]) {
      expect(await failure(`api/runs/short-lived${path}`)).toMatchObject({ status: 404, code: "RUN_NOT_FOUND" });
    }
  });

  test("records that lack what every record has are left out", async () => {
    const folder = writeRun(root, "odd");
    writeFileSync(join(folder, "trajectories/step-000001.jsonl"), '{"turns":null}\n[]\n"text"\n{"id":1}\n');
    writeFileSync(join(folder, "spans.jsonl"), '{"worker":"nobody"}\n');
    writeFileSync(join(folder, "metrics.jsonl"), '{"step":"one"}\n');
    expect((await get<TrajectoriesAnswer>("api/runs/odd/trajectories")).numTotal).toBe(0);
    expect((await get<SpansAnswer>("api/runs/odd/spans")).range).toBe(null);
    expect((await get<RunAnswer>("api/runs/odd")).metrics).toEqual([]);
  });
});

describe("what it refuses", () => {
  test.each([
    "api/runs/..",
    "api/runs/..%2f..%2fetc",
    "api/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "api/runs/sokoban%2f..%2f..",
    "api/runs/sokoban%00",
    "api/runs/%2fetc",
    "api/runs/sokoban/trajectories/1/..%2f..%2f..%2fetc%2fpasswd",
    "../../etc/passwd",
    "..%2f..%2fpackage.json",
    "assets/../../package.json",
  ])("the path %s leads nowhere", async (path) => {
    const { status, body } = await rawGet(`/${path}`);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(body).not.toContain("root:");
    expect(JSON.parse(body)).toHaveProperty("error.message");
  });

  test("a run that is a link is not listed and not shown", async () => {
    const elsewhere = copyRecordedRuns();
    symlinkSync(join(elsewhere, "sokoban"), join(root, "linked"));
    expect((await get<RunsAnswer>("api/runs")).runs.map(({ key }) => key)).not.toContain("linked");
    expect(await failure("api/runs/linked")).toMatchObject({ status: 404 });
    rmSync(elsewhere, { recursive: true });
  });

  test("files and folders of a run that are links out of it are not read", async () => {
    const secret = join(root, "..", `secret-${process.pid}.json`);
    writeFileSync(secret, '{"secret":"do not show"}');
    const folder = writeRun(root, "links");
    rmSync(join(folder, "config.json"));
    symlinkSync(secret, join(folder, "config.json"));
    expect(await failure("api/runs/links")).toMatchObject({ status: 403, code: "PATH_REFUSED" });
    const other = writeRun(root, "folder-link");
    rmSync(join(other, "trajectories"), { recursive: true });
    symlinkSync(join(root, "sokoban/trajectories"), join(other, "trajectories"));
    symlinkSync(secret, join(other, "metrics.jsonl"));
    expect(await failure("api/runs/folder-link/trajectories")).toMatchObject({ status: 403 });
    expect(await failure("api/runs/folder-link/series?name=a")).toMatchObject({ status: 403 });
    rmSync(secret);
  });

  test("a folder in place of a file is an answer, not a crash", async () => {
    const folder = writeRun(root, "folders");
    mkdirSync(join(folder, "metrics.jsonl"));
    mkdirSync(join(folder, "spans.jsonl"));
    expect(await failure("api/runs/folders/series?name=a")).toMatchObject({ status: 403, code: "PATH_REFUSED" });
    expect(await failure("api/runs/folders/spans")).toMatchObject({ status: 403 });
  });

  test("queries that make no sense are told what is allowed", async () => {
    expect(await failure("api/runs/sokoban/trajectories?limit=100000")).toMatchObject({ status: 400 });
    expect(await failure("api/runs/sokoban/trajectories?stepMin=abc")).toMatchObject({ status: 400 });
    expect(await failure("api/runs/sokoban/series?name=a&points=1e9")).toMatchObject({ status: 400 });
    expect(await failure("api/runs/sokoban/spans?width=-1")).toMatchObject({ status: 400 });
  });

  test("another host's name is refused, so that no web page can reach it under its own", async () => {
    expect(await rawGet("/api/runs", { host: "evil.example" })).toMatchObject({ status: 403 });
    expect(await rawGet("/api/runs", { host: "localhost:1" })).toMatchObject({ status: 200 });
  });

  test("a host that others reach needs a token, and then every request does", async () => {
    await expect(startDashboard({ root, host: "0.0.0.0" })).rejects.toThrow("Add --token");
    await expect(startDashboard({ root, host: "0.0.0.0", token: "short" })).rejects.toThrow("8 or more");
    const guarded = await startDashboard({ root, token: "abcdefgh-1" });
    const base = guarded.url.split("?")[0]!;
    const status = async (path: string, headers: Record<string, string> = {}) =>
      (await fetch(`${base}${path}`, { headers, redirect: "manual" })).status;
    expect(await status("api/runs")).toBe(401);
    expect(await status("")).toBe(401);
    expect(await status("api/runs?token=abcdefgh-2")).toBe(401);
    expect(await status("api/runs", { authorization: "Bearer abcdefgh-1" })).toBe(200);
    const first = await fetch(guarded.url, { redirect: "manual" });
    expect(first.status).toBe(302);
    const cookie = first.headers.get("set-cookie")!;
    expect(cookie).toMatch(/HttpOnly; SameSite=Strict/);
    expect(await status("api/runs", { cookie: cookie.split(";")[0]! })).toBe(200);
    await guarded.close();
  });

  test("no answer lets a script run that is not the page's own", async () => {
    const { headers } = await fetch(dashboard.url);
    expect(headers.get("content-security-policy")).toContain("default-src 'self'");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  });
});

interface SentEvent {
  readonly name: string;
  readonly id: string | undefined;
  readonly data: unknown;
}

async function* readEvents(response: Response): AsyncGenerator<SentEvent> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
      const fields = new Map(
        text
          .slice(0, end)
          .split("\n")
          .map((line) => line.split(/: (.*)/s) as [string, string]),
      );
      text = text.slice(end + 2);
      const name = fields.get("event");
      if (name !== undefined) yield { name, id: fields.get("id"), data: JSON.parse(fields.get("data")!) };
    }
  }
}

/** fetch would tidy up the path. */
function rawGet(path: string, headers: Record<string, string> = {}): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(dashboard.url);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, headers }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        body += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.on("error", reject);
    sent.end();
  });
}
