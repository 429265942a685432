/** Secrets of a run file: used where a request is made, and found nowhere else. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDashboard } from "../../src/dashboard/start-dashboard.ts";
import { type Ended, runReroll } from "./run-reroll.ts";

/** Each holds this mark, and no other text does. */
const MARK = "s3cr3t";
const judgeKey = `sk-judge-${MARK}-4711`;
const folder = mkdtempSync(join(tmpdir(), "reroll-keys-"));
const mcpServer = fileURLToPath(new URL("../envs/mcp-server.mjs", import.meta.url));

interface Request {
  readonly path: string;
  readonly headers: string;
  readonly body: string;
}

/** One server in the place of all services: a judge, MLflow, and Weights & Biases. */
let server: Server;
let origin: string;
const requests: Request[] = [];

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { url = "", headers } = request;
    requests.push({ path: url, headers: JSON.stringify(headers), body: Buffer.concat(chunks).toString() });
    // The first call of the judge is refused by a server that repeats the key it refuses.
    const isRefused = url.includes("/chat/completions") && requests.filter(isJudged).length === 1;
    response.writeHead(isRefused ? 401 : 200, { "content-type": "application/json" });
    response.end(isRefused ? `Wrong key: ${headers.authorization}` : JSON.stringify(answerTo(url)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(join(folder, "run.mjs"), runFile());
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

function answerTo(path: string): object {
  if (path.includes("/chat/completions")) return { choices: [{ message: { content: "SCORE: 7" } }] };
  if (path.includes("get-by-name")) return { experiment: { experiment_id: "1" } };
  if (path.includes("runs/create")) return { run: { info: { run_id: "r" } } };
  if (path.includes("/graphql")) {
    const project = { name: "p", entity: { name: "e" } };
    return { data: { upsertBucket: { bucket: { name: "b", historyLineCount: 0, project } } } };
  }
  return {};
}

function runFile(): string {
  const run = {
    model: { preset: "nano" },
    data: { type: "rows", rows: [{ prompt: "Say seven.", truth: "7" }], schema: "auto" },
    envs: {
      default: {
        type: "tool-use",
        mcpServers: [
          {
            name: "test",
            command: process.execPath,
            args: [mcpServer, "stdio", "--token", `arg-${MARK}-1`],
            env: { SERVICE_PASSWORD: `env-${MARK}-2` },
          },
        ],
      },
    },
    rewards: {
      default: {
        type: "judge",
        mode: "rubric",
        baseUrl: `http://judge:url-${MARK}-3@${origin}/v1?code=query-${MARK}-4`,
        model: "m",
        apiKey: `sk-file-${MARK}-10`,
        headers: { "x-team": { env: "TEAM_KEY" } },
        body: { user: `body-${MARK}-5` },
        maxRetries: 0,
      },
    },
    rollout: { groupsPerStep: 1, groupSize: 2, contextLength: 2048, sampling: { maxTokens: 4 } },
    training: { optimizer: { lr: 0.001 } },
    loop: { type: "sync", steps: 1 },
    tracking: {
      mlflow: { url: `http://me:mlflow-${MARK}-6@${origin}` },
      wandb: { project: "p", url: `http://me:wandb-${MARK}-7@${origin}` },
    },
  };
  return `export default ${JSON.stringify(run)};`;
}

const env = { WANDB_API_KEY: `wandb-key-${MARK}-8`, TEAM_KEY: `team-${MARK}-9` };

function reroll(...words: string[]): Promise<Ended> {
  return runReroll(words, { cwd: folder, env });
}

/** Every file below a folder that holds a secret. */
function leaksIn(place: string): string[] {
  const entries = readdirSync(place, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(MARK));
}

function isJudged({ path }: Request): boolean {
  return path.includes("/chat/completions");
}

/** Requests to services that have no business with the secret of a judge or a tool. */
function leaksInTrackers(): Request[] {
  return requests.filter((request) => !isJudged(request) && request.body.includes(MARK));
}

test("a run uses its secrets, and leaves none of them behind", async () => {
  const trained = await reroll("train", "run.mjs", "--name", "whole", "--set", `rewards.default.apiKey=${judgeKey}`);
  expect(trained.code, trained.stderr).toBe(0);
  expect(trained.stdout + trained.stderr).not.toContain(MARK);
  expect(leaksIn(join(folder, "runs"))).toEqual([]);
  expect(leaksInTrackers()).toEqual([]);

  const judged = requests.find(isJudged)!;
  expect(judged.path).toBe(`/v1/chat/completions?code=query-${MARK}-4`);
  expect(JSON.parse(judged.headers)).toMatchObject({ authorization: `Bearer ${judgeKey}`, "x-team": env.TEAM_KEY });
  expect(JSON.parse(judged.body)).toMatchObject({ user: `body-${MARK}-5` });
  const tracked = requests.find(({ path }) => path.startsWith("/api/2.0/mlflow"))!;
  expect(tracked.headers).toContain(Buffer.from(`me:mlflow-${MARK}-6`).toString("base64"));

  const config = JSON.parse(readFileSync(join(folder, "runs/whole/config.json"), "utf8"));
  expect(config.rewards.default).toMatchObject({
    baseUrl: `http://[secret]@${origin}/v1?code=[secret]`,
    apiKey: "[secret]",
    headers: { "x-team": { env: "TEAM_KEY" } },
    body: { user: "[secret]" },
  });
  const { sets } = JSON.parse(readFileSync(join(folder, "runs/whole/run.json"), "utf8"));
  expect(sets).toEqual(["rewards.default.apiKey=[secret]", 'name="whole"']);
  expect(readFileSync(join(folder, "runs/whole/trajectories/step-000001.jsonl"), "utf8")).toContain(
    "Wrong key: Bearer [secret]",
  );
  const dashboard = await startDashboard({ root: join(folder, "runs"), openTokenizer: async () => () => [] });
  try {
    const answer = await fetch(`${dashboard.url.split("?")[0]}api/runs/whole${new URL(dashboard.url).search}`);
    const shown = await answer.text();
    expect(answer.status, shown).toBe(200);
    expect(shown).toContain("[secret]");
    expect(shown).not.toContain(MARK);
  } finally {
    await dashboard.close();
  }
}, 60_000);

test("no command prints a secret", async () => {
  const remote = `engine.remote={"kind":"sglang","url":"http://u:remote-${MARK}-11@localhost:1","apiKey":"remote-${MARK}-12"}`;
  const shown = await Promise.all([
    reroll("train", "run.mjs", "--explain", "--set", remote),
    reroll("train", "run.mjs", "--plan", "--set", remote),
    reroll("runs", "compare", "runs/whole", "runs/whole"),
    reroll("runs", "list", "runs", "--json"),
    // What is wrong is named; what was written is not.
    reroll("train", "run.mjs", "--set", `rewards.default.apiKey=["${MARK}"]`),
    reroll("train", "run.mjs", "--set", `rewards.default.apiKey="${MARK}`),
    reroll("train", "run.mjs", "--set", `envs.default.mcpServers.0={"name":"x","hedders":{"a":"${MARK}"}}`),
    reroll("train", "run.mjs", "--set", `rewards.default.apiKey.env=TEAM_KEY`),
  ]);
  expect(shown.map(({ code }) => code)).toEqual([0, 0, 0, 0, 2, 2, 2, 2]);
  for (const { stdout, stderr } of shown) expect(stdout + stderr).not.toContain(MARK);
  expect(shown[0]!.stdout).toMatch(/^engine\.remote\.url +"http:\/\/\[secret\]@localhost:1" +--set$/m);
  expect(shown[4]!.stderr).toContain("rewards.default.apiKey is not valid: got [secret]");
}, 120_000);

test("a secret that was given with --set has to be given again to resume", async () => {
  const missing = await reroll("train", "run.mjs", "--resume", "runs/whole");
  expect(missing.code).toBe(2);
  expect(missing.stderr).toContain("rewards.default.apiKey was given with --set when the run started");
  const unset = await runReroll(["train", "run.mjs", "--plan"], { cwd: folder, env: { ...env, TEAM_KEY: "" } });
  expect(unset.code).toBe(2);
  expect(unset.stderr).toContain(
    "rewards.default.headers is read from the environment variable TEAM_KEY, which is not set",
  );
}, 60_000);
