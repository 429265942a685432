/** Runs bench/<name>.ts. Usage: npm run bench -- <name> [arguments] */
import { existsSync, readdirSync } from "node:fs";

const folder = new URL("../bench/", import.meta.url);
const [name] = process.argv.splice(2, 1);
const script = new URL(`${name}.ts`, folder);
if (name === undefined || !existsSync(script)) {
  const known = readdirSync(folder)
    .filter((file) => file.endsWith(".ts"))
    .map((file) => file.slice(0, -3));
  console.error(`Usage: npm run bench -- <name>. Files in bench/: ${known.join(", ")}.`);
  process.exit(2);
}
await import(script.href);
