/**
 * The dashboard in a browser: how soon a page is painted, how smoothly a chart of 100,000 points pans, and a list of 50,000
 * trajectories scrolls.
 *
 * npm run bench -- dashboard [steps] [trajectories]
 * Needs Debian's chromium. The run is made up: every step has ten metrics. Server, browser and this script share the machine.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium, type Page } from "playwright-core";
import { openDashboard } from "../src/cli/open-dashboard.ts";
import { Random } from "../src/random/random.ts";
import { printTable, writeResult } from "./report.ts";

const [numSteps = 100_000, numTrajectories = 50_000] = process.argv.slice(2).map(Number);
const PAN_MS = 3000;
/** Counts frames until `stopFrames` is called, which gives what it saw. */
const countFrames = `{
  const times = [];
  let isCounting = true;
  const count = (now) => { times.push(now); if (isCounting) requestAnimationFrame(count); };
  requestAnimationFrame(count);
  window.stopFrames = () => {
    isCounting = false;
    const lengths = times.slice(1).map((time, i) => time - times[i]);
    return { fps: (1000 * lengths.length) / (times.at(-1) - times[0]), longestMs: Math.max(...lengths) };
  };
}`;
const root = mkdtempSync(join(tmpdir(), "reroll-bench-dashboard-"));
writeRun(join(root, "large"));
const dashboard = await openDashboard({ root });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const result = await measure();
  printTable(
    `${numSteps} steps, ${numTrajectories} trajectories`,
    ["what", "measured"],
    Object.entries(result).map(([name, value]) => [name, String(value)]),
  );
  writeResult("dashboard", { numSteps, numTrajectories, ...result });
} finally {
  await browser.close();
  await dashboard.close();
  rmSync(root, { recursive: true });
}

async function measure() {
  const start = performance.now();
  await (await fetch(`${dashboard.url}api/runs/large/summary`)).json();
  const metricsFirstReadMs = performance.now() - start;
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  const firstPaintMs: number[] = [];
  for (let i = 0; i < 5; i++) firstPaintMs.push(await paintOf(`${dashboard.url}#/runs`));
  const overviewPaintMs = await paintOf(`${dashboard.url}#/runs/large`);
  const opened = performance.now();
  await page.goto(`${dashboard.url}#/runs/large`);
  await page.locator('[data-metric="reward/mean"] .chart[aria-label*=" 0."]').waitFor();
  const chartsDrawnMs = performance.now() - opened;
  const pan = await panChart(page);
  const list = await scrollList(page);
  return {
    scriptBytesGzipped: scriptBytes(),
    firstPaintMs: round(median(firstPaintMs)),
    overviewPaintMs: round(overviewPaintMs),
    chartsDrawnMs: round(chartsDrawnMs),
    metricsFirstReadMs: round(metricsFirstReadMs),
    ...pan,
    ...list,
  };
}

/** From the start of the navigation to the first contentful paint, in a browser that has nothing of it yet. */
async function paintOf(url: string): Promise<number> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  await page.goto(url);
  const paint = `new Promise((resolve) => new PerformanceObserver((list) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) resolve(entry.startTime);
  }).observe({ type: "paint", buffered: true }))`;
  const ms = await page.evaluate<number>(paint);
  await context.close();
  return ms;
}

/** Zooms to a fifth, then drags with Shift held, while the page counts its frames. */
async function panChart(page: Page) {
  const over = page.locator('[data-metric="reward/mean"] .u-over');
  await page.locator('[data-metric="reward/mean"] .chart').focus();
  for (let i = 0; i < 2; i++) await page.keyboard.press("+");
  await page.waitForTimeout(1000);
  const box = (await over.boundingBox())!;
  const y = box.y + box.height / 2;
  await page.keyboard.down("Shift");
  await page.mouse.move(box.x + box.width / 2, y);
  await page.mouse.down();
  await page.evaluate(countFrames);
  const start = performance.now();
  for (let i = 0; performance.now() - start < PAN_MS; i++) {
    await page.mouse.move(box.x + box.width * (0.5 + 0.4 * Math.sin(i / 25)), y);
  }
  const { fps, longestMs } = await page.evaluate<Frames>("window.stopFrames()");
  await page.mouse.up();
  await page.keyboard.up("Shift");
  return {
    panFramesPerSecond: round(fps),
    panLongestFrameMs: round(longestMs),
    chartsOnScreen: await seenCharts(page),
  };
}

async function scrollList(page: Page) {
  const start = performance.now();
  await page.goto(`${dashboard.url}#/runs/large/trajectories`);
  const count = `${numTrajectories} of ${numTrajectories} trajectories`;
  await page.getByText(count, { exact: true }).waitFor({ timeout: 180_000 });
  const indexMs = performance.now() - start;
  const again = performance.now();
  await page.goto(`${dashboard.url}#/runs/large/trajectories?rewardMin=0.5&sort=reward`);
  await page.getByText(new RegExp(`^(?!${numTrajectories} ).* of ${numTrajectories} trajectories$`)).waitFor();
  const filterMs = performance.now() - again;
  await page.evaluate(countFrames);
  await page.evaluate(`new Promise((resolve) => {
    const list = document.querySelector(".virtual");
    const start = performance.now();
    const move = (now) => {
      list.scrollTop += 160;
      if (now - start < ${PAN_MS}) requestAnimationFrame(move); else resolve();
    };
    requestAnimationFrame(move);
  })`);
  const { fps, longestMs } = await page.evaluate<Frames>("window.stopFrames()");
  const rows = await page.locator(".trajectory-row").count();
  return {
    trajectoriesFirstReadMs: round(indexMs),
    filterMs: round(filterMs),
    scrollFramesPerSecond: round(fps),
    scrollLongestFrameMs: round(longestMs),
    rowsInPage: rows,
  };
}

interface Frames {
  readonly fps: number;
  readonly longestMs: number;
}

function seenCharts(page: Page): Promise<number> {
  return page.evaluate<number>(
    "[...document.querySelectorAll('.chart')].filter((chart) => chart.getBoundingClientRect().top < innerHeight).length",
  );
}

function writeRun(folder: string): void {
  mkdirSync(join(folder, "trajectories"), { recursive: true });
  const info = {
    ...{ id: "large", name: "large", status: "finished", error: null, pid: 0, host: "bench", numSteps },
    ...{
      startedAt: "2026-01-01T00:00:00.000Z",
      endedAt: null,
      recipe: "grpo",
      model: "none",
      tags: [],
      seed: 1,
      version: "",
    },
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(info));
  writeFileSync(join(folder, "config.json"), "{}");
  const random = new Random(1);
  const names = [
    ...[
      "reward/mean",
      "env/success",
      "rollout/reply_tokens",
      "rollout/turns",
      "rollout/truncated_share",
      "policy/entropy",
    ],
    ...["policy/anchor_kl", "policy/clip_fraction", "train/sampler_gap", "throughput/step"],
  ];
  const lines = Array.from({ length: numSteps }, (_, step) => {
    const metrics = Object.fromEntries(names.map((name) => [name, step / numSteps / 2 + random.uniform() / 2]));
    return JSON.stringify({ step: step + 1, timeMs: Date.UTC(2026, 0) + 1000 * step, kind: "train", metrics });
  });
  writeFileSync(join(folder, "metrics.jsonl"), `${lines.join("\n")}\n`);
  const perStep = 1000;
  for (let step = 1; step * perStep <= numTrajectories; step++) {
    const records = Array.from({ length: perStep }, (_, i) => JSON.stringify(trajectory(step, i, random.uniform())));
    const name = `step-${String(step).padStart(6, "0")}.jsonl`;
    writeFileSync(join(folder, "trajectories", name), `${records.join("\n")}\n`);
  }
}

/** 100 tokens, as a short reply has. */
function trajectory(step: number, index: number, reward: number) {
  const tokens = Array.from({ length: 100 }, (_, i) => i);
  const turn = {
    ...{ messages: [{ role: "user", content: "x".repeat(200) }], replyText: "y".repeat(400), finish: "stop" },
    ...{ promptFrom: 0, promptIds: tokens, tokenIds: tokens, samplerLogprobs: tokens.map(() => -0.1234) },
    ...{
      versions: tokens.map(() => step),
      reward: 0,
      stateKey: null,
      metrics: {},
      startedMs: 0,
      generateMs: 1,
      envMs: 1,
    },
  };
  return {
    ...{
      step,
      id: `${step}-${index}`,
      groupId: `${step}-${index >> 3}`,
      sampleIndex: index & 7,
      seed: 1,
      fate: "delivered",
    },
    ...{ reason: null, prompt: { id: "p", domain: "bench", messages: [], tools: [], truth: null }, turns: [turn] },
    ...{ end: { kind: "completed" }, reward: { total: reward, score: reward, parts: {} }, metrics: {} },
    timings: { startedMs: 0, queuedMs: 0, generateMs: 1, envMs: 1, rewardMs: 0, totalMs: 2 },
  };
}

function scriptBytes(): number {
  const built = new URL("../dist/dashboard/app/", import.meta.url);
  const scripts = readdirSync(built).filter((name) => name.endsWith(".mjs"));
  return scripts.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, built))).length, 0);
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}
