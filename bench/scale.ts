/**
 * Scale, simulated: how many engines one controller can drive, and what asynchronous runs gain on a long tail of reply lengths.
 *
 * node --import tsx bench/scale.ts [engines] [GPUs of the second table, such as 8,64]
 * The scheduler, the router (`EnginePool`) and the loop are the real ones; engines and trainer are their speeds alone, as measured on one
 * H200 with the shape of Qwen2.5-0.5B: 53,800 tokens/s with 64 sequences and 130,300 with 256, and 142,600 tokens/s of training.
 * Simulated times do not depend on this machine. The processor time per sample does: it includes that of the simulation, and what engines say
 * token by token is not in it.
 */
import type { Prompt } from "../src/flow/prompt.ts";
import type { Trajectory } from "../src/flow/trajectory.ts";
import { EnginePool } from "../src/generation/pool/engine-pool.ts";
import { Seat } from "../src/generation/pool/seat.ts";
import type { LoopParts } from "../src/loops/loop-parts.ts";
import { runRolloutLoop } from "../src/loops/rollout-loop.ts";
import { deriveSeed, Random } from "../src/random/random.ts";
import { admitByStaleness, admitWanted } from "../src/rollout/admission.ts";
import type { RunEpisode } from "../src/rollout/episode.ts";
import { RolloutScheduler, type SchedulerOptions } from "../src/rollout/rollout-scheduler.ts";
import { printTable, writeResult } from "./report.ts";
import { VirtualEngine, VirtualTime } from "./virtual-cluster.ts";

const [numEnginesGiven = "1000", gpusGiven = "8,64,512"] = process.argv.slice(2);
const gpuCounts = gpusGiven.split(",").map(Number);
const GROUP_SIZE = 8;
const MAX_RUNNING = 256;
const PROMPT_TOKENS = 256;
/** The line through both measurements: 1.19 ms with 64 sequences, 1.96 ms with 256. */
const stepMs = (numRunning: number) => 0.931 + 0.00404 * numRunning;
const TRAINED_PER_MS = 142.6;
/** 1 GB over a link of 50 GB/s, and a moment to begin. */
const PUBLISH_MS = 50;
/** Lengths of a lognormal: half of the replies have less than 512 tokens, one in eighty runs to the limit. */
const LENGTHS = { median: 512, sigma: 1.25, most: 8192 };

/** The longest reply takes seven steps of training: one whose group may not be that old would be started again for ever. */
const MAX_STALENESS = 8;

interface Setting {
  readonly numEngines: number;
  /** GPUs that train. In turns with sampling they are the same as those that sample. */
  readonly numTrainers: number;
  readonly groupsPerStep: number;
  readonly numSteps: number;
  readonly options: Pick<SchedulerOptions, "admission" | "rest" | "maxStaleness">;
}

const controller = await measureController(Number(numEnginesGiven));
const tails = await measureTails();
report();

/** Every engine full, and a sixteenth of what is in flight trained on at a time: what the controller spends on a sample. */
async function measureController(numEngines: number) {
  const groupsPerStep = (numEngines * MAX_RUNNING) / GROUP_SIZE / 16;
  globalThis.gc?.();
  const before = process.memoryUsage();
  const options = { admission: admitByStaleness(16, groupsPerStep), rest: "continue" as const };
  const run = await simulate(
    { numEngines, numTrainers: numEngines, groupsPerStep, numSteps: 8, options },
    (numInFlight) => {
      if (numInFlight < numEngines * MAX_RUNNING) return undefined;
      globalThis.gc?.();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external - before.heapUsed - before.external;
    },
  );
  return {
    numEngines,
    inFlight: run.mostInFlight,
    samples: run.numEnded,
    microsPerSample: (1000 * run.processorMs) / run.numEnded,
    samplesPerSecond: (1000 * run.numEnded) / run.processorMs,
    bytesPerSampleInFlight: (run.measured ?? Number.NaN) / run.mostInFlight,
    simulatedSeconds: run.seconds,
  };
}

/** The same GPUs, taking turns or divided, with 128 samples per GPU and step. */
async function measureTails() {
  const results = [];
  for (const numGpus of gpuCounts) {
    const groupsPerStep = (numGpus * 128) / GROUP_SIZE;
    const sync = await simulate({
      ...{ numEngines: numGpus, numTrainers: numGpus, groupsPerStep, numSteps: 2 },
      options: { admission: admitWanted() },
    });
    results.push({ numGpus, way: "synchronous", ...summary(sync), speedup: 1 });
    const numTrainers = numGpus / 2;
    const options = {
      admission: admitByStaleness(MAX_STALENESS, groupsPerStep),
      rest: "continue" as const,
      maxStaleness: MAX_STALENESS,
    };
    const run = await simulate({
      numEngines: numGpus - numTrainers,
      numTrainers,
      groupsPerStep,
      numSteps: 12,
      options,
    });
    const speedup = run.tokensPerSecond / sync.tokensPerSecond;
    results.push({ numGpus, way: `asynchronous, staleness ${MAX_STALENESS}`, ...summary(run), speedup });
  }
  return results;
}

type Simulated = Awaited<ReturnType<typeof simulate>>;

function summary({
  tokensPerSecond,
  seconds,
  idleShare,
  meanStaleness,
  mostStaleness,
  numStale,
  meanTokens,
  processorMs,
}: Simulated) {
  const controllerShare = processorMs / 1000 / seconds;
  return { tokensPerSecond, seconds, idleShare, meanStaleness, mostStaleness, numStale, meanTokens, controllerShare };
}

async function simulate(setting: Setting, measure: (numInFlight: number) => number | undefined = () => undefined) {
  const { numEngines, numTrainers, groupsPerStep, numSteps, options } = setting;
  const time = new VirtualTime();
  const speed = { maxRunning: MAX_RUNNING, stepMs };
  const engines = Array.from(
    { length: numEngines },
    () => new VirtualEngine(time, speed, ({ sampling }) => lengthOf(sampling.seed!)),
  );
  const seats = await Promise.all(
    engines.map((engine, i) => Seat.open({ name: `engine ${i}`, open: async () => engine, bringsWeights: false })),
  );
  await Promise.all(seats.map((seat) => seat.give(async () => {})));
  const pool = new EnginePool(seats, { seed: 1 });
  let [numInFlight, mostInFlight, numEnded] = [0, 0, 0];
  let measured: number | undefined;
  const runEpisode: RunEpisode = async ({ queuedMs, ...task }, { signal, onStage }) => {
    onStage?.("generating");
    mostInFlight = Math.max(mostInFlight, ++numInFlight);
    measured ??= measure(numInFlight);
    const {
      finish,
      usage: _,
      ...reply
    } = await pool.generate({
      promptIds: promptOf(task.prompt),
      sampling: { maxTokens: LENGTHS.most, seed: deriveSeed(task.seed, "length") },
      signal,
    });
    numInFlight--;
    numEnded++;
    onStage?.("scoring");
    return trajectoryOf(task, queuedMs, reply, finish.kind === "aborted");
  };
  const scheduler = new RolloutScheduler({
    ...{ runEpisode, sources: [{ share: 1, source: prompts() }], seed: 1, clock: time.clock },
    options: { groupSize: GROUP_SIZE, maxInFlight: numEngines * MAX_RUNNING, ...options },
  });
  let [numTokens, numSamples, staleness, mostStaleness, numStale] = [0, 0, 0, 0, 0];
  const parts = {
    rollout: scheduler,
    experience: { build: (groups, version) => ({ batch: { samples: groups, version } as never, metrics: {} }) },
    trainer: {
      step: async (batch) => {
        const { samples: groups, version } = batch as unknown as {
          samples: readonly { trajectories: readonly Trajectory[] }[];
          version: number;
        };
        let inBatch = 0;
        for (const { trajectories } of groups)
          for (const { turns } of trajectories) {
            const { tokenIds, versions } = turns[0]!.reply;
            inBatch += tokenIds.length;
            numSamples++;
            const age = version - (versions[0] ?? version);
            staleness += age;
            mostStaleness = Math.max(mostStaleness, age);
          }
        numTokens += inBatch;
        await time.after((inBatch + groups.length * GROUP_SIZE * PROMPT_TOKENS) / (TRAINED_PER_MS * numTrainers));
        return { metrics: {} } as never;
      },
    },
    sync: {
      publish: async (version) => {
        await time.after(PUBLISH_MS);
        for (const engine of engines) engine.version = version;
        return {};
      },
    },
    observer: {
      onRollout: async (_, { report: { numStale: some } }) => {
        numStale += some;
      },
      onStep: async () => "continue",
    },
    groupsPerStep,
  } as LoopParts;
  const cpu = process.cpuUsage();
  await time.drive(runRolloutLoop(parts, { step: 0 }, { numSteps }, new AbortController().signal));
  const { user, system } = process.cpuUsage(cpu);
  const seconds = time.nowMs / 1000;
  const idleMs = engines.reduce((sum, engine) => sum + engine.idleMs, 0);
  await scheduler.close();
  return {
    ...{ seconds, numSamples, numEnded, mostInFlight, measured, numStale, mostStaleness },
    tokensPerSecond: numTokens / seconds,
    meanTokens: numTokens / numSamples,
    meanStaleness: staleness / numSamples,
    idleShare: idleMs / (numEngines * time.nowMs),
    processorMs: (user + system) / 1000,
  };
}

function lengthOf(seed: number): number {
  const random = new Random(seed);
  // Box and Muller: a normal out of two uniforms.
  const normal = Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());
  return Math.max(1, Math.min(LENGTHS.most, Math.round(LENGTHS.median * Math.exp(LENGTHS.sigma * normal))));
}

function promptOf({ seed }: Prompt): Int32Array {
  return new Int32Array(PROMPT_TOKENS).fill(seed);
}

function prompts() {
  let next = 0;
  const promptAt = (i: number): Prompt => ({
    id: `p${i}`,
    domain: "bench",
    seed: i,
    truth: null,
    extra: {},
    messages: [],
  });
  return { next: async () => [promptAt(next++)], position: () => next, restore: async () => {} };
}

function trajectoryOf(
  task: Pick<Trajectory, "id" | "groupId" | "prompt" | "sampleIndex" | "seed">,
  queuedMs: number,
  reply: Trajectory["turns"][number]["reply"],
  isAborted: boolean,
): Trajectory {
  const turn = {
    promptIds: new Int32Array(0),
    reply,
    replyText: "",
    messages: [],
    finish: "stop",
    reward: 0,
    metrics: {},
  };
  return {
    ...task,
    turns: [{ ...turn, finish: "stop", startedMs: 0, generateMs: 0, envMs: 0 }],
    end: { kind: isAborted ? "aborted" : "completed" },
    reward: { total: 0, score: 0, parts: {} },
    metrics: {},
    timings: { startedMs: 0, queuedMs, generateMs: 0, envMs: 0, rewardMs: 0, totalMs: 0 },
  };
}

function report(): void {
  printTable(
    "Controller: every engine has 256 sequences",
    [
      "engines",
      "in flight",
      "samples",
      "processor time per sample",
      "samples per second of it",
      "memory per sample in flight",
    ],
    [
      [
        String(controller.numEngines),
        String(controller.inFlight),
        String(controller.samples),
        `${controller.microsPerSample.toFixed(0)} us`,
        controller.samplesPerSecond.toFixed(0),
        `${(controller.bytesPerSampleInFlight / 1000).toFixed(1)} kB`,
      ],
    ],
  );
  printTable(
    "Long tail: the same GPUs, taking turns or divided into as many engines as trainers",
    [
      "GPUs",
      "way",
      "tokens/s",
      "speedup",
      "engines without work",
      "mean staleness",
      "most",
      "dropped groups",
      "mean reply",
      "controller busy",
    ],
    tails.map((one) => [
      String(one.numGpus),
      one.way,
      one.tokensPerSecond.toFixed(0),
      one.speedup.toFixed(2),
      `${(100 * one.idleShare).toFixed(0)} %`,
      one.meanStaleness.toFixed(2),
      String(one.mostStaleness),
      String(one.numStale),
      one.meanTokens.toFixed(0),
      `${(100 * one.controllerShare).toFixed(0)} %`,
    ]),
  );
  const settings = {
    groupSize: GROUP_SIZE,
    maxRunning: MAX_RUNNING,
    lengths: LENGTHS,
    trainedPerMs: TRAINED_PER_MS,
    publishMs: PUBLISH_MS,
  };
  writeResult("scale", { settings, controller, tails });
}
