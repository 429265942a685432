/**
 * The dashboard in a real browser, as a person uses it: over recorded runs, made-up ones, and one that is trained for the test.
 * Pictures of every view are kept in build/screenshots.
 */
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDashboard } from "../../src/cli/open-dashboard.ts";
import type { Dashboard } from "../../src/dashboard/start-dashboard.ts";
import { readTrajectories } from "../../src/tracking/read-run.ts";
import { copyRecordedRuns, metricLine, trajectory, writeRun, writeTrajectories } from "./dashboard-run.ts";
import { keepScreenshot, noBrowser, openBrowser } from "./open-browser.ts";
import { trainOnLake } from "./real-run.ts";

const MARKUP = `<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"><b>bold</b>`;

describe.skipIf(noBrowser !== undefined)(noBrowser ?? "in a browser", () => {
  let root: string;
  let dashboard: Dashboard;
  let browser: Browser;
  let page: Page;
  const problems: string[] = [];

  beforeAll(async () => {
    root = copyRecordedRuns();
    writeLiveRun(root);
    dashboard = await openDashboard({ root });
    browser = await openBrowser();
    page = await newPage({ width: 1280, height: 860 });
  });

  afterAll(async () => {
    await browser.close();
    await dashboard.close();
    rmSync(root, { recursive: true });
  });

  async function newPage(viewport: { width: number; height: number }, colorScheme: "light" | "dark" = "light") {
    const opened = await browser.newPage({ viewport, colorScheme });
    opened.on("pageerror", (error) => problems.push(error.message));
    opened.on("console", (message) => {
      if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text()))
        problems.push(message.text());
    });
    return opened;
  }

  function open(hash: string, on = page) {
    return on.goto(`${dashboard.url}#/${hash}`);
  }

  function runRows(text = "") {
    return page.locator(".run-row:not(.head)", { hasText: text });
  }

  /** A chart says its last values in its label. */
  function chart(name: string, lastValue: string, on = page) {
    return on.locator(`[data-metric="${name}"] .chart[aria-label*=" ${lastValue}"]`);
  }

  test("runs are listed with their status, and found by any word about them", async () => {
    await open("runs");
    await runRows().nth(2).waitFor();
    await runRows("sokoban").locator("polyline").waitFor();
    await keepScreenshot(page, "runs");
    await page.getByLabel("Find runs").fill("gigpo lake");
    await expect.poll(() => runRows().count()).toBe(1);
    expect(await runRows().textContent()).toContain("frozen-lake");
    await page.getByLabel("Find runs").fill("");
    await page.getByRole("button", { name: "recorded" }).click();
    await expect.poll(() => runRows().count()).toBe(2);
  });

  test("a point arrives on the open page of a live run", async () => {
    await open("runs/live");
    await chart("reward/mean", "0.25").waitFor();
    await page.locator(".connection.live").waitFor();
    appendFileSync(join(root, "live/metrics.jsonl"), metricLine(3, { "reward/mean": 0.625, "env/success": 0.5 }));
    await chart("reward/mean", "0.625").waitFor({ timeout: 5000 });
    await chart("env/success", "0.5").waitFor();
  });

  test("an overview explains its metrics, says its warnings in words, and leads to what they mean", async () => {
    await open("runs/sokoban");
    await chart("reward/mean", "4.664").waitFor();
    await page.getByText("51 % of trajectories are ended by a limit").waitFor();
    await page.locator('[data-metric="policy/clip_fraction"] .metric-name').hover();
    await page.getByText("Tokens whose ratio was clipped, and so have no gradient.").waitFor();
    await page.evaluate("scrollTo(0, 0)");
    await page.locator('[data-metric="reward/mean"] .metric-name').hover();
    await keepScreenshot(page, "overview");
    await page.getByRole("link", { name: "What it means" }).click();
    await page.getByText("The model is then judged on replies that it could not finish.").waitFor();
  });

  test("smoothing, log scale and wall clock change the curves; keys zoom all charts at once", async () => {
    await open("runs/sokoban");
    const reward = chart("reward/mean", "4.664");
    await reward.waitFor();
    await page.getByLabel("Smoothing").fill("0.5");
    await page.locator('[data-metric="reward/mean"] .u-legend').getByText("mean ~").waitFor();
    await page.getByLabel("log scale").check();
    await page.getByLabel("x axis").selectOption("time");
    await page.locator('[data-metric="reward/mean"] .u-legend').getByText("time").waitFor();
    const zoomed = page.waitForRequest((request) => /series\?.*axis=time.*from=/.test(request.url()));
    await page.locator('[data-metric="reward/mean"] .chart').focus();
    await page.keyboard.press("+");
    const names = new URL((await zoomed).url()).searchParams.getAll("name");
    expect(names).toContain("reward/mean");
    expect(names).toContain("throughput/step");
    const everything = page.waitForRequest(
      (request) => request.url().includes("series?") && !request.url().includes("from="),
    );
    await page.keyboard.press("0");
    await everything;
  });

  test("trajectories are filtered by end and reward, and sorted", async () => {
    await open("runs/sokoban/trajectories");
    await page.getByText("36 of 36 trajectories").waitFor();
    await keepScreenshot(page, "trajectories");
    await page.getByLabel("end").selectOption("completed");
    await page.getByLabel("step, at least").fill("12");
    await page.getByLabel("reward, at most").fill("10.5");
    await expect.poll(() => page.locator("p[role=status]").textContent()).toMatch(/^\d of 36 trajectories$/);
    const ends = await page.locator("a.trajectory-row").allTextContents();
    expect(ends.every((text) => text.startsWith("12") && text.includes("completed"))).toBe(true);
    await page.getByRole("link", { name: "Clear" }).click();
    await page.getByText("36 of 36 trajectories").waitFor();
    await page.getByRole("button", { name: /Sort by reward/ }).click();
    await expect.poll(() => page.locator("a.trajectory-row").first().textContent()).toMatch(/10\.9/);
  });

  test("a Sokoban episode is replayed on its board", async () => {
    await open("runs/sokoban/trajectories/12/66-0");
    const board = page.locator(".replay .board");
    await board.waitFor();
    expect(await board.getAttribute("aria-label")).toBe(
      "Before turn 1. box in row 3, column 3; player in row 3, column 4",
    );
    await keepScreenshot(page, "conversation");
    await page.getByRole("slider", { name: "Turn" }).fill("1");
    expect(await board.getAttribute("aria-label")).toBe(
      "Before turn 2. box in row 3, column 2; player in row 3, column 3",
    );
    await page.getByRole("slider", { name: "Turn" }).fill("5");
    await page.getByRole("button", { name: "Play" }).click();
    await page.getByText("turn 7 of 7").waitFor();
    await page.getByRole("button", { name: "Play" }).waitFor();
    await page.getByText("The state after the last reply is not recorded.").waitFor();
  });

  test("a replay ends with the board after the last turn, where it was recorded", async () => {
    writeSolvedRun(root);
    await open("runs/solved/trajectories/1/solved");
    const board = page.locator(".replay .board");
    await board.waitFor();
    await page.getByRole("button", { name: "Play" }).click();
    await page.getByText("All turns are played. The rewards of the turns add up to +10.9.").waitFor();
    expect(await board.getAttribute("aria-label")).toBe(
      "At the end. player in row 2, column 3; box in row 2, column 4",
    );
    await page.getByRole("button", { name: "Play" }).waitFor();
    await open("runs/solved/trajectories/1/solved?tab=group");
    await page.getByLabel("At the end. player in row 2, column 3").waitFor();
  });

  test("a run of a vector environment shows its episodes, and says that it has no trajectories", async () => {
    writeControlRun(root);
    await open("runs");
    await runRows("cart-pole").locator("polyline").waitFor();
    await open("runs/cart-pole");
    await chart("episode/return", "64").waitFor();
    await chart("episode/length", "32").waitFor();
    expect(await page.locator("h2").allTextContents()).toEqual(["Reward and success", "Length", "Throughput"]);
    await page.getByRole("link", { name: "trajectories" }).click();
    await page.getByText("This run has recorded no trajectories.").waitFor();
  });

  test("a group stands side by side with its advantages", async () => {
    await open("runs/sokoban/trajectories/12/66-0?tab=group");
    await expect.poll(() => page.locator(".group > li").count()).toBe(6);
    await page.locator(".group > li").nth(5).locator(".board").first().waitFor();
    expect(await page.locator(".group > li").first().textContent()).toContain("advantage +9.367");
    await page.getByText("The run recorded no advantages").waitFor();
  });

  test("tokens are colored, show their numbers, and the least likely is found", async () => {
    await open("runs/sokoban/trajectories/12/66-0?tab=tokens");
    await page.locator(".token.reply").first().waitFor();
    await page.getByRole("button", { name: "Least likely" }).click();
    const numbers = page.locator(".token-numbers");
    expect(await page.locator(".token.selected").textContent()).toBe("D");
    expect(await numbers.textContent()).toMatch(/log-prob-\d/);
    const colorOf = () => page.locator(".token.selected").getAttribute("style");
    const before = await colorOf();
    await page.getByLabel("color").selectOption("version");
    expect(await colorOf()).not.toBe(before);
    await page.locator(".tokens").focus();
    await page.keyboard.press("ArrowRight");
    expect(await page.locator(".token.selected").textContent()).toBe("o");
    expect(await page.getByRole("button", { name: "Worst mismatch" }).isDisabled()).toBe(true);
  });

  test("of a run that was trained just now, every token has every number, and the worst mismatch is found", async () => {
    // Without an anchor and with several updates per step, the policy moves away from the sampler within a step.
    const folder = await trainOnLake(root, "trained", {
      envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 6 } },
      rollout: { groupsPerStep: 6, groupSize: 4, context: "turn", contextLength: 64, sampling: { maxTokens: 4 } },
      algorithm: { type: "gigpo", bypass: {} },
      training: { optimizer: { lr: 1e-3 }, minibatch: 8 },
      replay: { capacity: 64, ratio: 0.25, maxAge: 4 },
      loop: { type: "async", steps: 3, maxStaleness: 1 },
      warmStart: { type: "play", steps: 12, turnsPerStep: 64 },
    });
    const { values } = await readTrajectories(folder, 3);
    const gapOf = ({ turns }: (typeof values)[number]) =>
      Math.max(
        ...turns.flatMap((turn) =>
          turn.samplerLogprobs.map((logprob, i) => Math.abs(logprob - turn.policyLogprobs![i]!)),
        ),
      );
    const telling = values.filter(({ advantage }) => advantage !== 0);
    const worst = (telling.length > 0 ? telling : values).reduce((most, one) =>
      gapOf(one) > gapOf(most) ? one : most,
    );
    expect(gapOf(worst)).toBeGreaterThan(0.001);
    await open(`runs/trained/trajectories/3/${worst.id}?tab=tokens`);
    const color = page.getByLabel("color");
    await color.selectOption("ratio");
    expect(await color.locator("option").allTextContents()).toEqual([
      ...["log-prob", "entropy", "ratio", "advantage", "loss mask", "version"],
    ]);
    await page.getByRole("button", { name: "Worst mismatch" }).click();
    const ratio = Number(/ratio([\d.]+)entropy/.exec((await page.locator(".token-numbers").textContent()) ?? "")?.[1]);
    expect(Math.abs(Math.log(ratio))).toBeCloseTo(gapOf(worst), 2);
    const styles = new Set<string>();
    for (const name of ["log-prob", "entropy", "ratio", "advantage", "loss mask", "version"]) {
      await color.selectOption(name);
      styles.add(String(await page.locator(".token.selected").getAttribute("style")));
    }
    expect(styles.size).toBeGreaterThanOrEqual(5);
    await color.selectOption("advantage");
    await page.locator(".token.selected").hover();
    expect(await page.locator(".token-numbers").textContent()).toMatch(/advantage[+-]?[\d.]+losscountsversion\d/);
    await keepScreenshot(page, "tokens");
    await page.getByRole("tab", { name: "group" }).click();
    await page.locator(".group > li").nth(3).locator(".replies li").first().waitFor();
    expect(await page.getByText("The run recorded no advantages").count()).toBe(0);
    await keepScreenshot(page, "group");
  });

  test("where the policy's log-probs are recorded, the worst mismatch is found", async () => {
    writeOddRun(root);
    await open("runs/odd/trajectories/1/mismatch?tab=tokens");
    await page.getByLabel("color").selectOption("ratio");
    await page.getByRole("button", { name: "Worst mismatch" }).click();
    // Log-probs -2 and -0.5: exp(1.5).
    expect(await page.locator(".token-numbers").textContent()).toMatch(/ratio4\.482/);
  });

  test("markup and scripts of a model are text", async () => {
    for (const tab of ["conversation", "tokens", "group"]) {
      await open(`runs/odd/trajectories/1/markup?tab=${tab}`);
      await page
        .getByText(tab === "tokens" ? "holds no tokenizer" : MARKUP)
        .first()
        .waitFor();
    }
    await open("runs");
    await runRows().first().waitFor();
    await open("runs/odd/config");
    await page.getByText("<img src=x onerror=window.hacked=3>").waitFor();
    expect(await page.evaluate("window.hacked")).toBe(undefined);
    expect(await page.locator("main img, main script, main b").count()).toBe(0);
  });

  test("the config of a run can be searched", async () => {
    await open("runs/sokoban/config");
    await page.getByText("rollout.groupSize").waitFor();
    await keepScreenshot(page, "config");
    await page.getByLabel("Find a key or value").fill("groupsize");
    await expect.poll(() => page.locator("tbody tr").allTextContents()).toEqual(["rollout.groupSize6"]);
  });

  test("the timeline shows who was idle, and zooms", async () => {
    await open("runs/sokoban/timeline");
    await page.getByText("42 % idle").waitFor();
    await keepScreenshot(page, "timeline");
    const zoomed = page.waitForRequest((request) => /spans\?.*from=/.test(request.url()));
    await page.getByRole("button", { name: "Zoom in" }).click();
    await zoomed;
    await expect.poll(() => page.getByText("42 % idle").count()).toBe(0);
  });

  test("the timeline of a run shows every worker, what it hosts, what it did and what that holds", async () => {
    await trainOnLake(root, "apart", {
      algorithm: { type: "ppo", klReward: { coefficient: 0.1 } },
      loop: { type: "sync", steps: 3 },
      placement: {
        engine: { count: 2 },
        reference: { workers: "processes" },
        critic: { count: 2, workers: "threads", sleep: true },
      },
    });
    await open("runs/apart/timeline");
    const lanes = page.locator(".lanes li strong");
    await expect.poll(() => lanes.count()).toBe(10);
    expect(await lanes.allTextContents()).toEqual([
      ...["engine", "environments", "trainer", "loop"],
      ...["engine 1", "engine 2", "trainer rank 0", "reference 1", "critic 1", "critic 2"],
    ]);
    const rows = page.getByLabel("Workers").locator("tbody tr");
    expect(await rows.nth(3).textContent()).toMatch(/^reference 1process, cpureference [\d.]+ kB/);
    expect(await rows.nth(4).textContent()).toMatch(/^critic 1thread, cpucritic [\d.]+ [kM]B/);
    await page.locator(".lanes").scrollIntoViewIfNeeded();
    await keepScreenshot(page, "workers");
  });

  test("two runs are compared in one chart, with what differs in their configs", async () => {
    await open("runs");
    await page.getByLabel("Compare sokoban").check();
    await page.getByLabel("Compare frozen-lake").check();
    await page.getByRole("link", { name: "Compare 2 runs" }).click();
    const reward = page.locator('[data-metric="reward/mean"]');
    await reward.locator(".u-legend").getByText("frozen-lake").waitFor();
    await reward.locator(".u-legend").getByText("sokoban").waitFor();
    await keepScreenshot(page, "compare");
    await page.getByText(/Config: \d+ of \d+ keys differ/).click();
    expect(await page.locator(".diff tr", { hasText: "rollout.groupSize" }).textContent()).toMatch(/groupSize68/);
  });

  test("the page says when the server is away, and comes back by itself", async () => {
    const { port } = new URL(dashboard.url);
    await open("runs/live");
    await page.locator(".connection.live").waitFor();
    await dashboard.close();
    await page.locator(".connection.lost").waitFor();
    appendFileSync(join(root, "live/metrics.jsonl"), metricLine(4, { "reward/mean": 0.875 }));
    dashboard = await openDashboard({ root, port: Number(port) });
    await page.locator(".connection.live").waitFor({ timeout: 15_000 });
    await chart("reward/mean", "0.875").waitFor();
  });

  test("a run that vanishes while it is looked at is said to be gone", async () => {
    writeRun(root, "short-lived");
    await open("runs/short-lived");
    await page.locator(".connection.live").waitFor();
    rmSync(join(root, "short-lived"), { recursive: true });
    await page.getByText("its folder was moved, renamed or deleted").first().waitFor();
  });

  test("dark follows the system, and a phone needs no sideways scrolling", async () => {
    const phone = await newPage({ width: 390, height: 800 }, "dark");
    for (const [name, hash] of [
      ["phone-runs", "runs"],
      ["phone", "runs/sokoban"],
      ["phone-trajectories", "runs/sokoban/trajectories"],
      ["phone-tokens", "runs/sokoban/trajectories/12/66-0?tab=tokens"],
    ] as const) {
      await open(hash, phone);
      await phone.locator(".run-row, .chart canvas, a.trajectory-row, .token").first().waitFor();
      await phone.waitForTimeout(300);
      expect(await phone.evaluate("document.documentElement.scrollWidth - innerWidth"), hash).toBeLessThanOrEqual(0);
      if (name === "phone") await keepScreenshot(phone, name);
    }
    expect(await phone.evaluate("document.documentElement.dataset.theme")).toBe("dark");
    await phone.setViewportSize({ width: 1280, height: 860 });
    await open("runs/sokoban", phone);
    await chart("reward/mean", "4.664", phone).waitFor();
    await keepScreenshot(phone, "dark");
    await phone.close();
  });

  test("a list of thousands draws only what is seen, and ends where it should", async () => {
    await open("runs/odd/trajectories?stepMin=2");
    await page.getByText("3000 of 3002 trajectories").waitFor();
    expect(await page.locator("a.trajectory-row").count()).toBeLessThan(60);
    await page.evaluate("document.querySelector('.virtual').scrollTop = 1e9");
    await page.locator("a.trajectory-row", { hasText: "2999" }).waitFor();
  });

  test("nothing went wrong in the page meanwhile", () => {
    expect(problems).toEqual([]);
  });
});

/** Its process is this one, so it counts as running. */
function writeLiveRun(root: string): void {
  const folder = writeRun(root, "live", { status: "running", pid: process.pid, host: hostname() });
  const lines = [0.125, 0.25].map((reward, i) => metricLine(i + 1, { "reward/mean": reward }));
  writeFileSync(join(folder, "metrics.jsonl"), lines.join(""));
}

/** A room that one push solves. */
function writeSolvedRun(root: string): void {
  const folder = writeRun(root, "solved");
  writeFileSync(join(folder, "config.json"), JSON.stringify({ envs: { rooms: { type: "sokoban", symbols: "roll" } } }));
  const pushed = { stateKey: "######\n#PXO_#\n######", replyText: "Right", reward: 10.9 };
  const prompt = { id: "p", domain: "rooms", messages: [], tools: [], truth: null };
  const finalStateKey = "######\n#_P√_#\n######";
  writeTrajectories(folder, 1, [trajectory({ step: 1, id: "solved", prompt, finalStateKey }, pushed)]);
}

/** Metrics as a run of PPO on a vector environment gives them, and nothing else. */
function writeControlRun(root: string): void {
  const folder = writeRun(root, "cart-pole", { recipe: "ppo", model: "mlp" });
  const lines = [16, 32, 64].map((value, i) =>
    metricLine(i + 1, { "episode/return": value, "episode/length": value / 2, "throughput/env_steps": 5000 }),
  );
  writeFileSync(join(folder, "metrics.jsonl"), lines.join(""));
}

/** What models write, and what no other run has. */
function writeOddRun(root: string): void {
  const folder = writeRun(root, "odd", { recipe: MARKUP, model: MARKUP, tags: ["<i>tag</i>"] });
  writeFileSync(join(folder, "config.json"), JSON.stringify({ name: "<img src=x onerror=window.hacked=3>" }));
  const said = { replyText: MARKUP, messages: [{ role: MARKUP, content: MARKUP }] };
  writeTrajectories(folder, 1, [
    trajectory({ step: 1, id: "markup" }, said),
    trajectory({ step: 1, id: "mismatch" }, { policyLogprobs: [-0.1, -0.5, -0.35] }),
  ]);
  const many = Array.from({ length: 3000 }, (_, i) =>
    trajectory({ step: 2, id: `t${i}`, groupId: `g${i}`, sampleIndex: i }),
  );
  writeTrajectories(folder, 2, many);
}
