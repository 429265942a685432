/**
 * Fuzzes every operator of the loaded libtorch, and prints the calls that crash the process. Takes about half an hour.
 * What crashes belongs into src/torch/unchecked-operators.ts; those there are called too.
 *
 * Usage: node --import tsx test/native/fuzz-all.ts [calls per operator] [pattern of names] [result file]
 */
import { writeFileSync } from "node:fs";
import { native } from "../../src/torch/binding.ts";
import { uncheckedOperators } from "../../src/torch/unchecked-operators.ts";
import { describeCall } from "./fuzz-operator.ts";
import { runFuzz } from "./run-fuzz.ts";

const [calls = "200", pattern = "", resultFile = "build/fuzz.json"] = process.argv.slice(2);
const nameOf = (schema: string) => schema.slice(0, schema.indexOf("("));
const schemas = native
  .listSchemas()
  .filter((schema) => new RegExp(pattern).test(schema))
  .sort();
const { crashes, counts } = await runFuzz(schemas, {
  calls: Number(calls),
  hangMs: 6_000,
  onCrash: ({ schema, call, end }) => {
    console.log(`${end} ${nameOf(schema)}(${describeCall(schema, call)}) # call ${call}`);
  },
});
writeFileSync(resultFile, `${JSON.stringify({ crashes, counts }, null, 1)}\n`);

// A hang is a call that was asked for too much work, such as a polynomial of degree a billion: slow, and no crash.
const found = crashes.filter(({ end }) => end !== "hang").map(({ schema }) => nameOf(schema));
const unknown = found.filter((name) => !uncheckedOperators.has(name));
console.log(
  `${schemas.length} operators, ${found.length} crashed, ${unknown.length} of them not listed: ${unknown.join(" ")}`,
);
process.exitCode = unknown.length === 0 ? 0 : 1;
