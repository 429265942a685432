import fc from "fast-check";
import { expect, test } from "vitest";
import { SpanRecorder } from "./span-recorder.ts";

test("overlapping samples are one busy stretch of their worker", () => {
  const recorder = new SpanRecorder(0);
  recorder.addEvent({ sampleId: "a", stage: "generating", atMs: 10 });
  recorder.addEvent({ sampleId: "b", stage: "generating", atMs: 20 });
  recorder.addEvent({ sampleId: "a", stage: "environment", atMs: 30 });
  recorder.addEvent({ sampleId: "a", stage: "complete", atMs: 35 });
  recorder.addEvent({ sampleId: "b", stage: "scoring", atMs: 50 });
  recorder.addEvent({ sampleId: "b", stage: "complete", atMs: 60 });
  const { spans, metrics, busyMs } = recorder.endStep(1, 100);
  expect(spans).toEqual([
    { worker: "engine", stage: "generating", startMs: 10, endMs: 50, step: 1 },
    { worker: "environments", stage: "environment", startMs: 30, endMs: 35, step: 1 },
    { worker: "rewards", stage: "scoring", startMs: 50, endMs: 60, step: 1 },
  ]);
  expect(metrics).toEqual({
    "time/step_ms": 100,
    "idle/engine": 0.6,
    "idle/environments": 0.95,
    "idle/rewards": 0.9,
  });
  expect(busyMs.engine).toBe(40);
});

test("a stage that goes on is cut at the end of the step and goes on in the next", () => {
  const recorder = new SpanRecorder(0);
  recorder.beginStage("train", 40);
  expect(recorder.activities().get("trainer")).toEqual({ stage: "train", count: 1, sinceMs: 40 });
  const first = recorder.endStep(1, 100);
  recorder.endStage("train", 150);
  const second = recorder.endStep(2, 200);
  expect(first.spans).toEqual([{ worker: "trainer", stage: "train", startMs: 40, endMs: 100, step: 1 }]);
  expect(first.metrics).toEqual({ "time/step_ms": 100, "idle/trainer": 0.4, "time/train_ms": 60 });
  expect(second.spans).toEqual([{ worker: "trainer", stage: "train", startMs: 100, endMs: 150, step: 2 }]);
  expect(second.metrics["idle/trainer"]).toBe(0.5);
  expect(recorder.activities().size).toBe(0);
});

test("stages of the loop that overlap count once for its idle share, and each for its own time", () => {
  const recorder = new SpanRecorder(0);
  recorder.beginStage("rollout", 0);
  recorder.beginStage("validate", 50);
  recorder.endStage("rollout", 60);
  recorder.endStage("validate", 80);
  const { metrics } = recorder.endStep(1, 100);
  expect(metrics["idle/loop"]).toBeCloseTo(0.2);
  expect(metrics["time/rollout_ms"]).toBe(60);
  expect(metrics["time/validate_ms"]).toBe(30);
});

test("of many short stretches only the widest gaps are kept, and idle time stays exact", () => {
  const recorder = new SpanRecorder(0);
  for (let i = 0; i < 1000; i++) {
    const startMs = 10 * i + (i >= 500 ? 5000 : 0);
    recorder.addEvent({ sampleId: `${i}`, stage: "environment", atMs: startMs });
    recorder.addEvent({ sampleId: `${i}`, stage: "failed", atMs: startMs + 4 });
  }
  const { spans, metrics } = recorder.endStep(1, 15_000);
  expect(spans).toHaveLength(64);
  expect(spans.some(({ startMs }) => startMs === 10_000)).toBe(true);
  expect(metrics["idle/environments"]).toBeCloseTo(1 - 4000 / 15_000);
});

test("events in any order never give more busy time than there was", () => {
  const stages = ["queued", "generating", "environment", "scoring", "complete", "aborted"] as const;
  const event = fc.record({ sampleId: fc.constantFrom("a", "b", "c"), stage: fc.constantFrom(...stages) });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const recorder = new SpanRecorder(0);
      events.forEach(({ sampleId, stage }, atMs) => {
        recorder.addEvent({ sampleId, stage, atMs });
      });
      const { spans, busyMs, metrics } = recorder.endStep(1, events.length);
      for (const worker of ["engine", "environments", "rewards"] as const) {
        const own = spans.filter((span) => span.worker === worker);
        expect(own.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0)).toBe(busyMs[worker]);
        expect(busyMs[worker]).toBeLessThanOrEqual(events.length);
        expect(metrics[`idle/${worker}`] ?? 0).toBeGreaterThanOrEqual(0);
      }
    }),
  );
});
