/** A real browser for tests: Debian's Chromium. */
import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";

const executablePath = "/usr/bin/chromium";
const kept = fileURLToPath(new URL("../../build/screenshots", import.meta.url));
const docs = fileURLToPath(new URL("../../docs/images", import.meta.url));

/** Why there is no browser; undefined when there is one. */
export const noBrowser = existsSync(executablePath)
  ? undefined
  : `${executablePath} is not there: apt-get install chromium`;

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}

/** Keeps a picture in build/screenshots, and in docs/images where there is none: delete one there to renew it. */
export async function keepScreenshot(page: Page, name: string): Promise<void> {
  mkdirSync(kept, { recursive: true });
  const file = `${kept}/dashboard-${name}.png`;
  await page.screenshot({ path: file });
  if (!existsSync(`${docs}/dashboard-${name}.png`)) copyFileSync(file, `${docs}/dashboard-${name}.png`);
}
