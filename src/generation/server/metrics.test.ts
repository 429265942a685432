import { expect, test } from "vitest";
import { Counter, Histogram, renderGauge } from "./metrics.ts";

test("a counter shows one line per set of labels, and 0 before anything happened", () => {
  const counter = new Counter("requests_total", "Requests.");
  expect(counter.render()).toBe("# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total 0\n");
  counter.add(1, { status: "200" });
  counter.add(2, { status: "200" });
  counter.add(1, { status: 'a"b\\c\nd' });
  expect(counter.render().split("\n").slice(2, 4)).toEqual([
    'requests_total{status="200"} 3',
    'requests_total{status="a\\"b\\\\c\\nd"} 1',
  ]);
  expect(counter.total).toBe(4);
});

test("the buckets of a histogram count everything up to their bound", () => {
  const histogram = new Histogram("seconds", "Time.", [0.1, 1]);
  for (const value of [0.05, 0.1, 0.5, 3]) histogram.observe(value);
  expect(histogram.render().trimEnd().split("\n").slice(2)).toEqual([
    'seconds_bucket{le="0.1"} 2',
    'seconds_bucket{le="1"} 3',
    'seconds_bucket{le="+Inf"} 4',
    "seconds_sum 3.65",
    "seconds_count 4",
  ]);
});

test("a gauge is the value it was given", () => {
  expect(renderGauge("depth", "Queue.", 7)).toBe("# HELP depth Queue.\n# TYPE depth gauge\ndepth 7\n");
});
