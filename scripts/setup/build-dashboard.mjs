/**
 * Builds the page of the dashboard: dashboard/ into dist/dashboard/app.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runCommand } from "./run-command.mjs";
import { clearStamp, hashInputs, listFiles, stampMatches, writeStamp } from "./stamp.mjs";

const STAMP = "build/stamps/dashboard";
const OUTPUT = "dist/dashboard/app";
/** What the page takes from outside of dashboard/: the explanations of warnings, and what an exported page computes itself. */
const SHARED = [
  "docs/guides/runs.md",
  ...["exported-run", "series-window", "thin-out", "trajectory-filter"].map((name) => `src/dashboard/${name}.ts`),
];

/** Why the page must be built, or null when it is current. */
export function dashboardReason(root) {
  // A published package holds the page and no sources.
  if (!existsSync(join(root, "dashboard/index.html"))) return null;
  if (!existsSync(join(root, OUTPUT, "index.html"))) return `there is no ${OUTPUT}`;
  return stampMatches(join(root, STAMP), sourcesHash(root)) ? null : "its sources changed";
}

/** In a process of its own, as the other steps: what it prints goes to its log. */
export async function buildDashboard(root, { log }) {
  const stamp = join(root, STAMP);
  const hash = sourcesHash(root);
  clearStamp(stamp);
  await runCommand(process.execPath, [fileURLToPath(import.meta.url), root], { log, cwd: root });
  writeStamp(stamp, hash);
}

function sourcesHash(root) {
  const files = listFiles(join(root, "dashboard")).map((file) => `dashboard/${file}`);
  return hashInputs(root, [...files, ...SHARED, "package-lock.json", "scripts/setup/build-dashboard.mjs"]);
}

async function buildWithVite(root) {
  const { build } = await import("vite");
  await build({
    root: join(root, "dashboard"),
    configFile: false,
    base: "./",
    build: {
      outDir: join(root, OUTPUT),
      emptyOutDir: true,
      target: "es2022",
      modulePreload: { polyfill: false },
      assetsInlineLimit: 0,
      rolldownOptions: {
        // .mjs, because a .js in dist without a source in src is taken for a leftover.
        output: {
          entryFileNames: "app-[hash].mjs",
          chunkFileNames: "[name]-[hash].mjs",
          assetFileNames: "[name]-[hash][extname]",
        },
      },
    },
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildWithVite(process.argv[2]);
