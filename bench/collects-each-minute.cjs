/**
 * Loaded into every thread of a run by NODE_OPTIONS=--require: collects garbage at each full minute of the clock, and appends what is left to a file
 * per thread of the folder in REROLL_HEAPS. Half a minute later, when V8 has given back what it had no more use for, it appends what V8 still keeps
 * for the heap of the thread, and what the process has in memory. The timers keep nothing alive.
 */
const { appendFileSync } = require("node:fs");
const { join } = require("node:path");
const { getHeapStatistics, setFlagsFromString } = require("node:v8");
const { runInNewContext } = require("node:vm");
const { threadId } = require("node:worker_threads");

const everyMs = 60_000;
const folder = process.env.REROLL_HEAPS;
if (folder !== undefined) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  /** Does something `offsetMs` after every full minute, and writes down what it returns. */
  const eachMinute = (offsetMs, look) => {
    let last = 0;
    const wait = () => setTimeout(write, everyMs - ((Date.now() - offsetMs) % everyMs)).unref();
    const write = () => {
      const minute = Math.round((Date.now() - offsetMs) / everyMs);
      // Timers may be a moment early, and come again at the full minute.
      if (minute > last)
        appendFileSync(join(folder, `${process.pid}-${threadId}.jsonl`), `${JSON.stringify({ minute, ...look() })}\n`);
      last = minute;
      wait();
    };
    wait();
  };
  eachMinute(0, () => {
    // Two, because the first runs finalizers that let go of more.
    collect();
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return { heapBytes: heapUsed + external };
  });
  eachMinute(everyMs / 2, () => ({
    keptBytes: getHeapStatistics().total_physical_size,
    residentBytes: process.memoryUsage.rss(),
  }));
}
