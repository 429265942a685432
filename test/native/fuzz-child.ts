/**
 * The process that may crash. Reads schemas from a file, one per line, and calls each operator `calls` times.
 *
 * Usage: fuzz-child.ts <schemas file> <progress file> <calls>
 *
 * The progress file always holds the line and the call that is being made, so that the parent knows what crashed.
 * At the end of each operator a line of JSON with its counts goes to standard output.
 */
import { openSync, readFileSync, writeSync } from "node:fs";
import { fuzzOperator } from "./fuzz-operator.ts";

const [schemasFile = "", progressFile = "", calls = "100"] = process.argv.slice(2);
const progress = openSync(progressFile, "w");

readFileSync(schemasFile, "utf8")
  .split("\n")
  .filter((schema) => schema !== "")
  .forEach((schema, line) => {
    const counts = fuzzOperator(schema, 0, Number(calls), (call) => {
      writeSync(progress, `${line} ${call}`.padEnd(32), 0);
    });
    writeSync(1, `${JSON.stringify({ name: schema.slice(0, schema.indexOf("(")), ...counts })}\n`);
  });
