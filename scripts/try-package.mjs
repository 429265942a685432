/**
 * Tries the package as a new user does, with the network: from an empty folder to a trained agent with three commands.
 *
 * Packs this checkout, then in an empty folder: npm install, reroll init, reroll train, with a cache of its own, so that the addon is
 * compiled too. Then: npm ci, the size of node_modules, warnings of npm, types without skipLibCheck. Prints what each took and fails
 * where the whole takes more than ten minutes.
 *
 * Usage: node scripts/try-package.mjs [--task agent] [--keep]
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const LIMIT_S = 600;
const LIMIT_MB = 60;
const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const { values } = parseArgs({
  options: { task: { type: "string", default: "agent" }, keep: { type: "boolean", default: false } },
});
const folder = mkdtempSync(join(tmpdir(), "reroll-try-"));
const project = join(folder, "project");
mkdirSync(project);
process.env.REROLL_CACHE = join(folder, "cache");

const tarball = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", folder], root, "stdout"))[0].filename;
const start = performance.now();
// The first of the three installs; the setup is what the third would offer on a terminal.
const installed = step("npm install", "npm", ["install", join(folder, tarball)]);
expect(!/EBADENGINE|deprecated/.test(installed), `npm install warns:\n${installed}`);
step("reroll init", "npx", ["reroll", "init", "--task", values.task, "--model", "nano"]);
step("reroll setup", "npx", ["reroll", "setup"]);
const trained = step("reroll train", "npx", ["reroll", "train", "run.ts"]);
const seconds = (performance.now() - start) / 1000;
const [, first, last] = /^reward +([\d.]+) at first, ([\d.]+) at last/m.exec(trained) ?? [];
console.log(`reward ${first} at first, ${last} at last; ${seconds.toFixed(0)} s in all`);
expect(Number(last) > Number(first), "the reward did not rise");

step("npm ci", "npm", ["ci"]);
const megabytes = Number(run("du", ["-sm", "node_modules"], project, "stdout").split("\t")[0]);
console.log(`node_modules: ${megabytes} MB`);
expect(megabytes < LIMIT_MB, `node_modules takes more than ${LIMIT_MB} MB`);
const compiler = join(dirname(createRequire(join(root, "package.json")).resolve("typescript/package.json")), "bin/tsc");
step("types", process.execPath, [compiler, "-p", ".", "--skipLibCheck", "false"]);
const { dependencies } = JSON.parse(readFileSync(join(project, "package.json"), "utf8"));
console.log(`package.json asks for reroll ${dependencies.reroll}`);
if (values.keep) console.log(folder);
else rmSync(folder, { recursive: true });
// Last, so that a machine with other work shows the rest all the same.
expect(seconds < LIMIT_S, `It took ${seconds.toFixed(0)} s, and ${LIMIT_S} are allowed.`);

function step(name, command, words) {
  const began = performance.now();
  const output = run(command, words, project);
  console.log(`${name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return output;
}

function run(command, words, cwd, part = "both") {
  const { status, stdout, stderr, error } = spawnSync(command, words, { cwd, encoding: "utf8", maxBuffer: 2 ** 28 });
  expect(status === 0, `${command} ${words.join(" ")} failed: ${error?.message ?? ""}\n${stdout}${stderr}`);
  return part === "stdout" ? stdout : `${stdout}${stderr}`;
}

function expect(isTrue, message) {
  if (isTrue) return;
  console.error(message);
  process.exit(1);
}
