/**
 * What a call costs: small operators from TypeScript and from Python on the same libtorch, with so few elements that
 * almost all of the time is the way to the kernel and back. Numbers are nanoseconds per call, with one thread.
 *
 * node --import tsx bench/binding-cost.ts [rounds]
 * Bar: a call in a scope costs at most twice what it costs in Python.
 */
import { setImmediate } from "node:timers/promises";
import { native } from "../src/torch/binding.ts";
import { ones } from "../src/torch/create.ts";
import { tensorScope } from "../src/torch/scope.ts";
import { PythonChild } from "./python-child.ts";
import { printTable, verdict, writeResult } from "./report.ts";
import { spread } from "./statistics.ts";
import { measure, type Sample, type Timing, takeTurns } from "./take-turns.ts";

const bar = 2;
const rounds = Number(process.argv[2] ?? 200);
const callsPerTurn = 2000;
// About what a few layers of a model make.
const callsPerScope = 100;

native.setNumThreads(1);
const a = ones([4]);
const b = ones([4]);
const recorded = ones([4]);
recorded.requiresGrad = true;
const matrix = ones([4, 4]);
const scalar = ones([1]);

/** The names are those of the calls in python/binding_cost.py. */
const calls = {
  add: () => a.add(b),
  addRecorded: () => recorded.add(b),
  matmul: () => matrix.matmul(matrix),
  narrow: () => a.narrow(0, 1, 2),
  item: () => scalar.item(),
} as const;

const python = new PythonChild("binding_cost.py");
const results: Record<string, Record<"scoped" | "outside" | "python", Timing>> = {};
for (const [name, call] of Object.entries(calls)) {
  const turns = {
    scoped: async () => [perCall(measure(() => callInScopes(call)))],
    outside: async () => {
      const sample = perCall(measure(() => callTimes(call, callsPerTurn)));
      // Lets the garbage collector's callbacks run, which free the tensors.
      await setImmediate();
      return [sample];
    },
    python: async () => [await python.request<Sample>("run", { call: name, count: callsPerTurn })],
  };
  results[name] = await takeTurns(turns, rounds, { warmUpRounds: 5 });
}
await python.stop();
report();

function callInScopes(call: () => unknown): void {
  for (let done = 0; done < callsPerTurn; done += callsPerScope) tensorScope(() => callTimes(call, callsPerScope));
}

function callTimes(call: () => unknown, count: number): void {
  for (let i = 0; i < count; i++) call();
}

/** Milliseconds of a turn to nanoseconds of a call. */
function perCall({ wall, cpu }: Sample): Sample {
  return { wall: (wall * 1e6) / callsPerTurn, cpu: (cpu * 1e6) / callsPerTurn };
}

function report(): void {
  const headers = ["ns per call, median (quartiles)", "in a scope", "outside", "Python", "scope/Python", "by minimum"];
  const rows = Object.entries(results).map(([name, timings]) => {
    const { scoped, outside, python } = timings;
    const ratio = scoped.wall.median / python.wall.median;
    return [
      name,
      spread(scoped.wall, 0),
      spread(outside.wall, 0),
      spread(python.wall, 0),
      ratio.toFixed(2),
      (scoped.wall.minimum / python.wall.minimum).toFixed(2),
    ];
  });
  printTable("Cost of a call", headers, rows);
  const { scoped, python } = results.add!;
  const ratio = scoped.wall.median / python.wall.median;
  console.log(`\nadd in a scope takes ${ratio.toFixed(2)} times Python's time: ${verdict(ratio, bar)}.`);
  writeResult("binding-cost", { unit: "ns per call", bar, ratio, rounds, callsPerTurn, callsPerScope, results });
}
