/**
 * Loaded into every thread of a run by NODE_OPTIONS=--require: collects garbage at each full minute of the clock, and appends what is left, what V8
 * keeps for the heap of the thread, and what the process has in memory, to a file per thread of the folder in REROLL_HEAPS. The timer keeps nothing
 * alive.
 */
const { appendFileSync } = require("node:fs");
const { join } = require("node:path");
const { setFlagsFromString } = require("node:v8");
const { runInNewContext } = require("node:vm");
const { threadId } = require("node:worker_threads");

const everyMs = 60_000;
const folder = process.env.REROLL_HEAPS;
if (folder !== undefined) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const wait = () => setTimeout(look, everyMs - (Date.now() % everyMs)).unref();
  const look = () => {
    // Two, because the first runs finalizers that let go of more.
    collect();
    collect();
    const { heapUsed, external, heapTotal, rss } = process.memoryUsage();
    const minute = Math.round(Date.now() / everyMs);
    const line = { minute, heapBytes: heapUsed + external, keptBytes: heapTotal, residentBytes: rss };
    appendFileSync(join(folder, `${process.pid}-${threadId}.jsonl`), `${JSON.stringify(line)}\n`);
    wait();
  };
  wait();
}
