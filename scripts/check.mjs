/**
 * Types, lint, layout and generated files, two at a time: checking the types takes longer than all else, and one core.
 *
 * Prints what each of them says when it is done, and fails when one of them does.
 */
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/** Scripts of package.json: those of a row run one after the other, and the rows side by side. */
const ROWS = [[["types"]], [["lint"], ["layout"], ["generate", "--check"]]];

let hasFailed = false;

async function check([script, ...words]) {
  const child = spawn("npm", ["run", "--silent", script, "--", ...words], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const [code, output, errors] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  process.stdout.write(output);
  process.stderr.write(errors);
  if (code === 0) return console.log(`${script}: ok`);
  hasFailed = true;
  console.error(`${script}: failed`);
}

await Promise.all(
  ROWS.map(async (row) => {
    for (const script of row) await check(script);
  }),
);
process.exitCode = hasFailed ? 1 : 0;
