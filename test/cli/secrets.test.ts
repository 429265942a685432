/** Secrets of a run file: used where a request is made, and found nowhere else. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startDashboard } from "../../src/dashboard/start-dashboard.ts";
import { callReroll } from "./call-reroll.ts";
import { type Ended, runReroll } from "./run-reroll.ts";

/** Each holds this mark, and no other text does. */
const MARK = "s3cr3t";
const judgeKey = `sk-judge-${MARK}-4711`;
const folder = mkdtempSync(join(tmpdir(), "reroll-keys-"));
const runFile = join(folder, "run.mjs");
const mcpServer = fileURLToPath(new URL("../envs/mcp-server.mjs", import.meta.url));

interface Request {
  readonly path: string;
  readonly headers: string;
  readonly body: string;
}

/** One server in the place of all services: a judge, a teacher, MLflow, and Weights & Biases. */
let server: Server;
let origin: string;
const requests: Request[] = [];

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { url = "", headers } = request;
    const body = Buffer.concat(chunks).toString();
    requests.push({ path: url, headers: JSON.stringify(headers), body });
    // Servers that repeat the key they refuse: the first call of the judge, and the third of the teacher, whose first is its trial.
    const isJudge = isJudged({ path: url }) && requests.filter(isJudged).length === 1;
    const isTeacher = isTaught({ path: url }) && requests.filter(isTaught).length === 3;
    response.writeHead(isJudge || isTeacher ? 401 : 200, { "content-type": "application/json" });
    if (isJudge) response.end(`Wrong key of the judge: ${headers.authorization}`);
    else if (isTeacher) response.end(`Wrong key of the teacher: ${headers.authorization}`);
    else response.end(JSON.stringify(answerTo(url, body)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(runFile, runText());
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
});

afterAll(() => {
  vi.unstubAllEnvs();
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

function answerTo(path: string, body: string): object {
  if (path.includes("/v1/models")) return { data: [{ id: "teacher", max_model_len: 4096 }] };
  if (path.includes("/generate")) {
    const tokens = (JSON.parse(body) as { input_ids: number[] }).input_ids;
    return { meta_info: { input_token_logprobs: tokens.map((id, i) => [i === 0 ? null : -1, id]) } };
  }
  if (path.includes("/chat/completions")) return { choices: [{ message: { content: "SCORE: 7" } }] };
  if (path.includes("get-by-name")) return { experiment: { experiment_id: "1" } };
  if (path.includes("runs/create")) return { run: { info: { run_id: "r" } } };
  if (path.includes("/graphql")) {
    const project = { name: "p", entity: { name: "e" } };
    return { data: { upsertBucket: { bucket: { name: "b", historyLineCount: 0, project } } } };
  }
  return {};
}

function runText(): string {
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
    rollout: { groupsPerStep: 1, groupSize: 4, contextLength: 2048, sampling: { maxTokens: 4 } },
    distillation: {
      teachers: {
        default: {
          type: "server",
          kind: "sglang",
          url: `http://${origin}/p;jsessionid=path-${MARK}-13`,
          apiKey: `sk-teacher-${MARK}-14`,
        },
      },
    },
    training: { optimizer: { lr: 0.001 } },
    loop: { type: "sync", steps: 1 },
    tracking: {
      mlflow: { url: `http://me:mlflow-${MARK}-6@${origin}` },
      wandb: { project: "p", url: `http://me:wandb-${MARK}-7@${origin}` },
    },
  };
  return `export default ${JSON.stringify(run)};`;
}

/** Variables that secrets are read from. */
const env = { WANDB_API_KEY: `wandb-key-${MARK}-8`, TEAM_KEY: `team-${MARK}-9` };

/** What the servers said of keys, as it may be shown. */
const refusals = ["judge", "teacher"].map((who) => `Wrong key of the ${who}: Bearer [secret]`);

/** Every file below a folder that holds a secret. */
function leaksIn(place: string): string[] {
  const entries = readdirSync(place, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(MARK));
}

function isJudged({ path }: Pick<Request, "path">): boolean {
  return path.includes("/chat/completions");
}

function isTaught({ path }: Pick<Request, "path">): boolean {
  return path.includes("/generate");
}

/** Requests to services that have no business with the secret of a judge, a teacher or a tool. */
function leaksInTrackers(): Request[] {
  return requests.filter((request) => !isJudged(request) && request.body.includes(MARK));
}

test("a run uses its secrets, and leaves none of them behind", async () => {
  const trained = await runReroll(
    ["train", "run.mjs", "--name", "whole", "--set", `rewards.default.apiKey=${judgeKey}`],
    { cwd: folder },
  );
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
  expect(config.distillation.teachers.default).toMatchObject({
    url: `http://${origin}/p;jsessionid=[secret]`,
    apiKey: "[secret]",
  });
  const { sets } = JSON.parse(readFileSync(join(folder, "runs/whole/run.json"), "utf8"));
  expect(sets).toEqual(["rewards.default.apiKey=[secret]", 'name="whole"']);
  const trajectories = readFileSync(join(folder, "runs/whole/trajectories/step-000001.jsonl"), "utf8");
  for (const refusal of refusals) expect(trajectories).toContain(refusal);
  const taught = requests.find(isTaught)!;
  expect(taught.path).toContain(`;jsessionid=path-${MARK}-13`);
  expect(JSON.parse(taught.headers)).toMatchObject({ authorization: `Bearer sk-teacher-${MARK}-14` });
});

test("neither the dashboard nor the file that it exports shows a secret", async () => {
  const dashboard = await startDashboard({ root: join(folder, "runs"), openTokenizer: async () => () => [] });
  try {
    const { origin: place, search } = new URL(dashboard.url);
    const ask = async (path: string) => {
      const answer = await fetch(`${place}/api/runs${path}${search}`);
      const shown = await answer.text();
      expect(answer.status, shown).toBe(200);
      expect(shown).not.toContain(MARK);
      return shown;
    };
    expect(await ask("/whole")).toContain("[secret]");
    const { rows } = JSON.parse(await ask("/whole/trajectories")) as { rows: { id: string }[] };
    const texts = await Promise.all(rows.map(({ id }) => ask(`/whole/trajectories/1/${id}`)));
    for (const refusal of refusals) expect(texts.some((text) => text.includes(refusal))).toBe(true);
  } finally {
    await dashboard.close();
  }
  const file = join(folder, "whole.html");
  const exported = await callReroll("dashboard", "--export", join(folder, "runs/whole"), file);
  expect(exported.code, exported.stderr).toBe(0);
  for (const refusal of refusals) expect(readFileSync(file, "utf8")).toContain(refusal);
  expect(exported.stdout + exported.stderr + readFileSync(file, "utf8")).not.toContain(MARK);
});

test("no command prints a secret", async () => {
  const remote = `engine.remote={"kind":"sglang","url":"http://u:remote-${MARK}-11@localhost:1","apiKey":"remote-${MARK}-12"}`;
  const runs = join(folder, "runs");
  const commands = [
    [0, "train", runFile, "--explain", "--set", remote],
    [0, "train", runFile, "--plan", "--set", remote],
    [0, "runs", "compare", join(runs, "whole"), join(runs, "whole")],
    [0, "runs", "list", runs, "--json"],
    // What is wrong is named; what was written is not.
    [2, "train", runFile, "--set", `rewards.default.apiKey=["${MARK}"]`],
    [2, "train", runFile, "--set", `rewards.default.apiKey="${MARK}`],
    [2, "train", runFile, "--set", `envs.default.mcpServers.0={"name":"x","hedders":{"a":"${MARK}"}}`],
    [2, "train", runFile, "--set", "rewards.default.apiKey.env=TEAM_KEY"],
  ] as const;
  const shown: Ended[] = [];
  for (const [code, ...words] of commands) {
    const ended = await callReroll(...words);
    expect(ended.code, ended.stderr).toBe(code);
    expect(ended.stdout + ended.stderr).not.toContain(MARK);
    shown.push(ended);
  }
  expect(shown[0]!.stdout).toMatch(/^engine\.remote\.url +"http:\/\/\[secret\]@localhost:1" +--set$/m);
  expect(shown[4]!.stderr).toContain("rewards.default.apiKey is not valid: got [secret]");
});

test("a secret that was given with --set has to be given again to resume", async () => {
  const missing = await callReroll("train", runFile, "--resume", join(folder, "runs/whole"));
  expect(missing.code).toBe(2);
  expect(missing.stderr).toContain("rewards.default.apiKey was given with --set when the run started");
  vi.stubEnv("TEAM_KEY", "");
  const unset = await callReroll("train", runFile, "--plan");
  expect(unset.code).toBe(2);
  expect(unset.stderr).toContain(
    "rewards.default.headers is read from the environment variable TEAM_KEY, which is not set",
  );
});
