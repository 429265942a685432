/**
 * One run that is disturbed again and again: processes are killed, links are cut for seconds. It has to finish by itself.
 *
 * npm run bench -- faults [kills] [steps] [seed]
 * Three machines, which are network namespaces: on the first the controller with a rank and two engines, on each of the others a server of
 * environments, and on one of them a worker with the second rank. Everything is started once, with --restarts. Kills hit controller, worker,
 * engines and servers, each one a SIGKILL; cuts hit the link of one of the other machines. Halfway the parent that watches the run is killed as well: what it started must end,
 * and the same command, started again as a scheduler would, goes on with --resume auto. Wants root, for the links. Another run of the same
 * file, alone and undisturbed, is what it is compared with.
 * Bar: it ends with exit code 0; every step is there once and with all its samples; no sample is trained on twice and no prompt is lost; the
 * reward of the last fifty steps is that of the undisturbed run within 5 %; no time without a step is longer than the limits allow.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Random } from "../src/random/random.ts";
import { latestStep } from "../src/run/resumable.ts";
import { type ProcessFacts, processTree } from "./process-tree.ts";
import { printTable, writeResult } from "./report.ts";
import { countRecords } from "./run-records.ts";

const [numKills, numSteps, seed] = [50, 2000, 1].map((preset, i) => Number(process.argv[2 + i] ?? preset)) as [
  number,
  number,
  number,
];
const perStep = 16;
/** Groups that the run file lets be sampled at the same time, and those that are ready. */
const maxAhead = 16;
const numCuts = Math.ceil(numKills / 8);
/** A worker behind a cut link is noticed after 30 seconds, and whoever waits for another process does so for at most this long. */
const joinTimeoutS = 240;

/** How long processes whose parent was killed may go on: a step, a checkpoint, and the time that workers get to close. */
const maxOrphansS = 120;
let orphansLastedS = Number.NaN;

const folder = mkdtempSync(join(tmpdir(), "reroll-faults-"));
const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const runFile = fileURLToPath(new URL("faults-run.ts", import.meta.url));
const env = {
  ...process.env,
  REROLL_TOKEN: randomBytes(16).toString("hex"),
  ENVIRONMENTS_KEY: randomBytes(16).toString("hex"),
};
const addresses = [0, 1, 2].map((node) => `10.78.0.${node + 1}`);
const [, ...others] = [0, 1, 2];
const random = new Random(seed);
const ip = (...words: string[]) => execFileSync("ip", words, { stdio: ["ignore", "ignore", "ignore"] });

/** What can be hit, and how often of ten. */
const roles = {
  controller: { share: 2, isMeant: ({ command }: ProcessFacts) => / train .*--supervised/.test(command) },
  rank: { share: 2, isMeant: ({ command }: ProcessFacts) => / worker .*--supervised/.test(command) },
  engine: { share: 3, isMeant: ({ command }: ProcessFacts) => command.includes("engine-process") },
  environments: {
    share: 3,
    isMeant: ({ command }: ProcessFacts) => / serve-environments .*--supervised/.test(command),
  },
} as const;
type Role = keyof typeof roles;

interface Fault {
  readonly what: Role | "link" | "parent";
  readonly seconds: number;
  /** Step of the latest checkpoint then. */
  readonly savedStep: number;
}

layNetwork();
try {
  await measure();
} finally {
  removeNetwork();
  rmSync(folder, { recursive: true });
}

/** What was started; the run's own process is another one after its parent was killed. */
interface Started {
  run: ChildProcess;
  readonly worker: ChildProcess;
  readonly servers: readonly ChildProcess[];
}

function owners({ run, worker, servers }: Started): readonly ChildProcess[] {
  return [run, worker, ...servers];
}

async function measure(): Promise<void> {
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  const sets = [`tracking.folder=${folder}`, `loop.steps=${numSteps}`].flatMap((set) => ["--set", set]);
  const url = others.map((node) => `http://${addresses[node]}:8700`);
  const game = ["--set", `envs.game=${JSON.stringify({ type: "remote", url, apiKey: { env: "ENVIRONMENTS_KEY" } })}`];
  const link = ["--join-timeout", `${joinTimeoutS}`, "--restarts", "8"];
  const meet = `${addresses[0]}:29500`;
  const startRun = () => {
    const words = ["train", runFile, ...sets, ...game, "--resume", "auto", "--listen", meet, "--workers", "1", ...link];
    return startIn(0, words, "controller");
  };
  const started: Started = {
    run: startRun(),
    worker: startIn(1, ["worker", "--join", meet, ...link], "worker"),
    servers: others.map((node) => startIn(node, serverWords(addresses[node]!), `environments-${node}`)),
  };
  const faults = await disturb(started, seconds, startRun);
  const codes = await Promise.all([started.run, started.worker].map(exitCode));
  const lastedS = seconds();
  for (const server of started.servers) server.kill("SIGTERM");
  const serverCodes = await Promise.all(started.servers.map(exitCode));
  await exitCode(startHere("train", runFile, ...sets, "--name", "undisturbed"));
  const counts = countRecords(join(folder, "faults"), perStep, maxAhead);
  const undisturbed = countRecords(join(folder, "undisturbed"), perStep, maxAhead);
  report({ faults, codes: [...codes, ...serverCodes], lastedS, counts, undisturbed, longestGapS: longestGap() });
}

function serverWords(host: string): string[] {
  const place = ["--host", host, "--port", "8700", "--api-key", env.ENVIRONMENTS_KEY];
  return ["serve-environments", runFile, ...place, "--restarts", "8"];
}

/** Kills and cuts until all are done or the run is over. */
async function disturb(
  started: Started,
  seconds: () => number,
  startRun: () => ChildProcess,
): Promise<readonly Fault[]> {
  const faults: Fault[] = [];
  const some = shuffled([...Array<"kill">(numKills).fill("kill"), ...Array<"link">(numCuts).fill("link")]);
  const middle = Math.floor(some.length / 2);
  const kinds = [...some.slice(0, middle), "parent" as const, ...some.slice(middle)];
  let savedStep = -1;
  for (const kind of kinds) {
    // Most come when the run has come further since the last one, some at any moment, its start included.
    if (random.uniform() < 0.7) await until(() => latestStep(join(folder, "faults")) > savedStep, started);
    await setTimeout(1000 * 4 * random.uniform());
    if (started.run.exitCode !== null) break;
    savedStep = latestStep(join(folder, "faults"));
    const what = kind === "kill" ? await killOne(started) : kind;
    // One cut in three is longer than the half minute after which a machine is taken for lost.
    if (kind === "link") await cut(random.uniform() < 1 / 3 ? 40 : 2 + 10 * random.uniform());
    if (kind === "parent") {
      orphansLastedS = await killParent(started.run);
      started.run = startRun();
    }
    faults.push({ what, seconds: Math.round(seconds()), savedStep });
    console.log(`${faults.length} of ${kinds.length} after ${seconds().toFixed(0)} s, step ${savedStep}: ${what}`);
  }
  return faults;
}

/** Kills the process that watches the run, and waits until everything below it is gone. Out: seconds that it took. */
async function killParent(run: ChildProcess): Promise<number> {
  const below = processTree(run.pid!).filter(({ pid }) => pid !== run.pid);
  const start = performance.now();
  run.kill("SIGKILL");
  while (below.some(({ pid, command }) => processTree(pid)[0]?.command === command)) await setTimeout(100);
  return (performance.now() - start) / 1000;
}

/** Kills a process of a drawn role, or of the next one that has a process now. */
async function killOne(started: Started): Promise<Role> {
  const deck = (Object.keys(roles) as Role[]).flatMap((role) => Array<Role>(roles[role].share).fill(role));
  for (;;) {
    const role = deck[Math.floor(random.uniform() * deck.length)]!;
    const found = owners(started)
      .flatMap(({ pid }) => processTree(pid!))
      .filter(roles[role].isMeant);
    const victim = found[Math.floor(random.uniform() * found.length)];
    if (victim !== undefined) {
      process.kill(victim.pid, "SIGKILL");
      return role;
    }
    await setTimeout(100);
    if (started.run.exitCode !== null) return role;
  }
}

async function cut(forS: number): Promise<void> {
  const link = `reroll-f${others[Math.floor(random.uniform() * others.length)]}`;
  ip("link", "set", link, "down");
  await setTimeout(1000 * forS);
  ip("link", "set", link, "up");
}

async function until(isDone: () => boolean, { run }: Started): Promise<void> {
  while (!isDone() && run.exitCode === null) await setTimeout(50);
}

function shuffled<Value>(values: readonly Value[]): Value[] {
  return values
    .map((value) => [random.uniform(), value] as const)
    .sort(([a], [b]) => a - b)
    .map(([, value]) => value);
}

/** Namespaces and a bridge between them, as test/clusters/namespaces.sh makes them. */
function layNetwork(): void {
  removeNetwork();
  ip("link", "add", "reroll-fbr", "type", "bridge");
  ip("link", "set", "reroll-fbr", "up");
  for (const [node, address] of addresses.entries()) {
    ip("netns", "add", `reroll-fault${node}`);
    ip("link", "add", `reroll-f${node}`, "type", "veth", "peer", "name", "eth0", "netns", `reroll-fault${node}`);
    ip("link", "set", `reroll-f${node}`, "master", "reroll-fbr", "up");
    ip("-n", `reroll-fault${node}`, "link", "set", "lo", "up");
    ip("-n", `reroll-fault${node}`, "address", "add", `${address}/24`, "dev", "eth0");
    ip("-n", `reroll-fault${node}`, "link", "set", "eth0", "up");
  }
}

function removeNetwork(): void {
  const spaces = addresses.map((_, node) => ["netns", "delete", `reroll-fault${node}`]);
  for (const words of [...spaces, ["link", "delete", "reroll-fbr"]])
    try {
      ip(...words);
    } catch {
      // It was not there.
    }
}

/** A command in a namespace, whose output goes to a file. `ip` becomes the command, so its process is that of the command. */
function startIn(node: number, words: readonly string[], name: string): ChildProcess {
  const child = spawn("ip", ["netns", "exec", `reroll-fault${node}`, process.execPath, main, ...words], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const log = createWriteStream(
    process.env.FAULTS_LOG === undefined ? "/dev/null" : `${process.env.FAULTS_LOG}-${name}.log`,
  );
  for (const stream of [child.stdout!, child.stderr!]) stream.pipe(log, { end: false });
  return child;
}

function startHere(...words: string[]): ChildProcess {
  return spawn(process.execPath, [main, ...words], { env, stdio: ["ignore", "ignore", "inherit"] });
}

async function exitCode(child: ChildProcess): Promise<number | null> {
  while (child.exitCode === null && child.signalCode === null) await setTimeout(100);
  return child.exitCode;
}

/** The longest time between two steps of the run, in seconds, whatever was in between. */
function longestGap(): number {
  const lines = readFileSync(join(folder, "faults/metrics.jsonl"), "utf8").trim().split("\n");
  const times = lines.map((line) => (JSON.parse(line) as { timeMs: number }).timeMs);
  return Math.max(...times.slice(1).map((time, i) => time - times[i]!)) / 1000;
}

interface Outcome {
  readonly faults: readonly Fault[];
  readonly codes: readonly (number | null)[];
  readonly lastedS: number;
  readonly counts: ReturnType<typeof countRecords>;
  readonly undisturbed: ReturnType<typeof countRecords>;
  readonly longestGapS: number;
}

function report({ faults, codes, lastedS, counts, undisturbed, longestGapS }: Outcome): void {
  const names = [...Object.keys(roles), "parent", "link"];
  const byRole = Object.fromEntries(names.map((name) => [name, faults.filter(({ what }) => what === name).length]));
  const numKilled = faults.filter(({ what }) => what !== "link" && what !== "parent").length;
  const lastReward = (rewards: readonly number[]) => mean(rewards.slice(-50));
  const [reward, expected] = [lastReward(counts.rewards), lastReward(undisturbed.rewards)];
  const { rewards: _, ...numbers } = counts;
  // Noticed, ended, started again and joined: the sum of the limits on the way.
  const maxGapS = 30 + 10 + joinTimeoutS;
  const checks = {
    "it ended by itself": codes.every((code) => code === 0),
    "all kills hit": numKilled === numKills,
    "every step once": counts.numSteps === numSteps && counts.wrongSteps.length === 0,
    "no sample missing": counts.shortSteps.length === 0 && counts.numLost === 0,
    "no sample twice": counts.numTwice === 0,
    "no wait beyond its limit": longestGapS < maxGapS,
    "nothing outlives its parent": orphansLastedS < maxOrphansS,
    "reward as without faults": Math.abs(reward - expected) < 0.05 * Math.abs(expected),
  };
  printTable(`${numKilled} kills and ${byRole.link} cuts in ${lastedS.toFixed(0)} s`, names, [
    names.map((name) => `${byRole[name]}`),
  ]);
  printTable(
    `${counts.numTrained} samples; longest time without a step ${longestGapS.toFixed(0)} s of ${maxGapS}; reward ${reward.toFixed(2)}, undisturbed ${expected.toFixed(2)}`,
    ["check", "holds"],
    Object.entries(checks).map(([name, holds]) => [name, holds ? "yes" : "NO"]),
  );
  writeResult("faults", {
    ...{ numKills, numSteps, seed, byRole, lastedS, codes, longestGapS, maxGapS, orphansLastedS },
    ...{ reward, rewardWithout: expected, counts: numbers, checks, faults },
  });
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
