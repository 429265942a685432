/**
 * Runs the tests of clients with the newest release of each, whatever versions this checkout has.
 *
 * In: a checkout that is set up. It is copied, the clients and frameworks of agents are replaced by their latest releases, and the tests
 * that talk to the endpoint run there with a Node that those releases ask for, which npm brings as a package. Needs the network.
 *
 * Usage: node scripts/try-clients.mjs [--node 22] [--keep]
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const CLIENTS = ["openai", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@anthropic-ai/sdk"];
const FRAMEWORKS = ["@openai/agents", "@mastra/core", "@langchain/langgraph", "@langchain/openai", "@langchain/core"];
const TESTS = [
  ...["examples/agents", "server/ai-sdk-client", "server/openai-client", "server/responses", "server/messages"],
  ...["server/structured-clients", "server/thinking"],
];

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const { values } = parseArgs({
  options: { node: { type: "string", default: "22" }, keep: { type: "boolean", default: false } },
});
const folder = mkdtempSync(join(tmpdir(), "reroll-clients-"));
const copy = join(folder, "checkout");
const frameworks = join(copy, "examples/agents/frameworks");

const nodeName = `node-${process.platform}-${process.arch}`;
run("npm", ["install", "--prefix", folder, "--no-save", `${nodeName}@${values.node}`], folder);
process.env.PATH = [join(folder, "node_modules", nodeName, "bin"), process.env.PATH].join(delimiter);

mkdirSync(copy);
const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root });
for (const file of files.toString().split("\0").filter(Boolean)) cpSync(join(root, file), join(copy, file));
for (const name of ["node_modules", "dist"]) run("cp", ["-a", join(root, name), join(copy, name)], root);
symlinkSync(join(root, "build"), join(copy, "build"));

for (const name of CLIENTS) rmSync(join(copy, "node_modules", name), { recursive: true, force: true });
run("npm", ["install", "--no-save", "--ignore-scripts", ...CLIENTS.map(latest)], copy);
run("npm", ["install", "--no-save", "--ignore-scripts", "--legacy-peer-deps", ...FRAMEWORKS.map(latest)], frameworks);
for (const name of CLIENTS) console.log(`${name} ${versionIn(copy, name)}`);
for (const name of FRAMEWORKS) console.log(`${name} ${versionIn(frameworks, name)}`);

const tests = TESTS.map((name) => `test/${name}.test.ts`);
const { status } = spawnSync("node", ["node_modules/vitest/vitest.mjs", "run", ...tests], {
  cwd: copy,
  stdio: "inherit",
});
if (values.keep) console.log(copy);
else rmSync(folder, { recursive: true });
process.exitCode = status ?? 1;

function latest(name) {
  return `${name}@latest`;
}

function versionIn(project, name) {
  return JSON.parse(readFileSync(join(project, "node_modules", name, "package.json"), "utf8")).version;
}

function run(command, words, cwd) {
  const {
    status: code,
    stdout,
    stderr,
    error,
  } = spawnSync(command, words, { cwd, encoding: "utf8", maxBuffer: 2 ** 28 });
  if (code === 0) return;
  console.error(`${command} ${words.join(" ")} failed: ${error?.message ?? ""}\n${stdout}${stderr}`);
  process.exit(1);
}
