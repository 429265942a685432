/** A run as one file, opened from the disk in a real browser: no server, no request, the same views. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import type { TrajectoryRow } from "../../src/dashboard/answers.ts";
import { spreadGroups } from "../../src/dashboard/export-run.ts";
import { callReroll } from "../cli/call-reroll.ts";
import { noBrowser, openBrowser } from "./open-browser.ts";

const run = fileURLToPath(new URL("../../fixtures/run/sokoban", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "reroll-export-"));
const file = join(folder, "sokoban.html");

afterAll(() => rmSync(folder, { recursive: true }));

test("it says what it wrote, and refuses what is no run", async () => {
  const { code, stdout } = await callReroll("dashboard", "--export", run, file);
  expect(code).toBe(0);
  expect(stdout).toMatch(/sokoban\.html \(\d\.\d MB\) with \d+ of \d+ trajectories/);
  expect(readFileSync(file, "utf8")).not.toMatch(/(?:src|href)="(?!data:)/);
  const refused = await callReroll("dashboard", "--export", folder);
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("holds no run.json") });
});

test("trajectories are kept by whole groups, the first and the last of them", () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({ step: Math.floor(i / 8), groupId: `${i >> 2}`, id: `${i}` }));
  const kept = spreadGroups(rows as unknown as TrajectoryRow[], 13);
  expect(kept.map(({ groupId }) => groupId)).toEqual([..."000055559999"]);
  expect(spreadGroups(rows as unknown as TrajectoryRow[], 3)).toEqual([]);
});

describe.skipIf(noBrowser !== undefined)(noBrowser ?? "in a browser", () => {
  test("it shows curves, a trajectory and the timeline, and asks nobody for anything", async () => {
    const browser = await openBrowser();
    try {
      const page = await browser.newPage();
      const problems: string[] = [];
      const asked: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      page.on("console", (message) => void (message.type() === "error" && problems.push(message.text())));
      page.on("request", (request) => asked.push(request.url()));
      const address = pathToFileURL(file).href;
      await page.goto(address);
      await page.locator('[data-metric="reward/mean"] .chart[aria-label]').waitFor();
      await page.locator(".connection.saved").waitFor();
      await page.getByRole("link", { name: "trajectories" }).click();
      const row = page.locator("a[href*='/trajectories/']").first();
      await row.click();
      await page.locator(".conversation .said.assistant").first().waitFor();
      await page.getByRole("tab", { name: "tokens" }).click();
      await page.locator(".tokens .token-block").first().waitFor();
      await page.getByRole("link", { name: "timeline" }).click();
      await page.locator(".gantt .lanes li").first().waitFor();
      await page.goto(`${address}#/runs`);
      await page.locator(".run-row:not(.head)", { hasText: "sokoban" }).waitFor();
      expect(problems).toEqual([]);
      expect(asked.filter((url) => !url.startsWith("data:") && url.split("#")[0] !== address)).toEqual([]);
    } finally {
      await browser.close();
    }
  }, 60_000);
});
