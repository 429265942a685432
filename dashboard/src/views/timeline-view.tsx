/** What every worker did when: a Gantt chart that can be zoomed, with the idle share of each in what is seen. */
import { effect, useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { SpansAnswer } from "../../../src/dashboard/answers.ts";
import type { WorkerFacts } from "../../../src/flow/worker-facts.ts";
import type { SpanRecord } from "../../../src/tracking/run-record.ts";
import { runPath, useAnswer } from "../api.ts";
import { type ChartWindow, handleKey, type Range } from "../charts/chart-window.ts";
import { colorAt } from "../charts/colors.ts";
import { listenToPointers } from "../charts/drag.ts";
import { useSettled } from "../charts/use-settled.ts";
import { ZoomButtons } from "../charts/zoom-buttons.tsx";
import { bytes, duration, percent } from "../format.ts";
import { Problem } from "../parts/problem.tsx";
import { colorOf, theme } from "../theme.ts";

const STAGES = [
  ...["generating", "environment", "scoring", "train", "sync", "rollout", "validate", "checkpoint"],
  ...["measure", "update"],
];
const LANE_HEIGHT = 34;
const AXIS_HEIGHT = 24;

export function TimelineView({ run, revision }: { readonly run: string; readonly revision: number }) {
  const window: ChartWindow = useSignal<Range | null>(null);
  const settled = useSettled(window);
  const [pointed, setPointed] = useState<SpanRecord | null>(null);
  const query = settled === null ? {} : { from: settled[0], to: settled[1] };
  const { data, error } = useAnswer<SpansAnswer>(runPath(run, "/spans", { width: 1500, ...query }), revision);
  const all: Range = data?.range ?? [0, 1];
  if (data?.range === null) return <p class="muted">Nothing was timed yet. The timeline begins with the first step.</p>;
  return (
    <>
      <Problem text={error} />
      <div class="tools" role="toolbar" aria-label="Timeline">
        <ZoomButtons window={window} all={all} />
        <ul class="legend">
          {STAGES.map((stage, i) => (
            <li key={stage}>
              <span class="swatch" style={{ background: colorAt(i) }} />
              {stage}
            </li>
          ))}
        </ul>
        <small class="muted wide-only">Drag to pan, Ctrl and wheel to zoom, double-click to see all.</small>
      </div>
      {data !== undefined && (
        <div class="gantt">
          <ul class="lanes" aria-label="Idle share in what is seen">
            {data.idle.map(({ worker, share }) => {
              const facts = data.workers.find(({ name }) => name === worker);
              return (
                <li
                  key={worker}
                  style={{ height: `${LANE_HEIGHT}px` }}
                  class={facts === undefined ? "" : "single"}
                  title={facts === undefined ? undefined : hosted(facts)}
                >
                  <strong>{worker}</strong>
                  <span class="muted">{percent(share)} idle</span>
                </li>
              );
            })}
          </ul>
          <Gantt answer={data} {...{ window, all }} onPoint={setPointed} />
        </div>
      )}
      {data !== undefined && data.workers.length > 0 && <Workers workers={data.workers} />}
      <p class="muted" role="status">
        {pointed === null
          ? "Point at a stretch to see what it is."
          : `${pointed.worker}: ${pointed.stage}, step ${pointed.step}, ${duration(pointed.endMs - pointed.startMs)}, ${duration(pointed.startMs - all[0])} after the start`}
      </p>
    </>
  );
}

/** Each worker with what it hosts: memory by role, and the peak of its process. */
function Workers({ workers }: { readonly workers: readonly WorkerFacts[] }) {
  return (
    <section aria-label="Workers">
      <h3>Workers and memory by role</h3>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>worker</th>
              <th>where</th>
              <th>hosts</th>
              <th class="number">peak of its process</th>
            </tr>
          </thead>
          <tbody>
            {workers.map((worker) => (
              <tr key={worker.name}>
                <td>{worker.name}</td>
                <td>{`${worker.runsIn}, ${worker.device}`}</td>
                <td>{rolesOf(worker)}</td>
                <td class="number">{worker.peakBytes === null ? "" : bytes(worker.peakBytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function rolesOf({ roles, runsIn }: WorkerFacts): string {
  return roles
    .map(({ role, bytes: held, isAsleep }) => {
      const size = runsIn === "server" ? "" : ` ${bytes(held)}`;
      return `${role}${size}${isAsleep ? " (asleep in host memory)" : ""}`;
    })
    .join(", ");
}

function hosted(worker: WorkerFacts): string {
  return `${worker.runsIn}, ${worker.device}: ${rolesOf(worker)}`;
}

interface GanttProps {
  readonly answer: SpansAnswer;
  readonly window: ChartWindow;
  readonly all: Range;
  readonly onPoint: (span: SpanRecord | null) => void;
}

function Gantt({ answer, window, all, onPoint }: GanttProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef({ answer, all });
  latest.current = { answer, all };
  const look = theme.value;
  // Drawn anew with new spans and in another theme.
  useEffect(() => {
    const element = canvas.current!;
    let frame = 0;
    const draw = () => {
      frame = 0;
      drawSpans(element, latest.current.answer, window.value ?? latest.current.all, latest.current.all[0]);
    };
    const request = () => {
      if (frame === 0) frame = requestAnimationFrame(draw);
    };
    const stopEffect = effect(() => {
      window.value;
      request();
    });
    const observer = new ResizeObserver(request);
    observer.observe(element);
    const stopPointers = listenToPointers({ element, window, all: () => latest.current.all, alwaysPans: true });
    return () => {
      stopEffect();
      stopPointers();
      observer.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [answer, look, window]);
  return (
    <canvas
      ref={canvas}
      aria-label="Timeline. Arrow keys pan, plus and minus zoom, 0 shows all."
      tabIndex={0}
      style={{ height: `${answer.idle.length * LANE_HEIGHT + AXIS_HEIGHT}px` }}
      onKeyDown={(event) => {
        if (handleKey(window, all, event.key)) event.preventDefault();
      }}
      onDblClick={() => {
        window.value = null;
      }}
      onMouseMove={(event) => {
        const { left, top, width } = event.currentTarget.getBoundingClientRect();
        const [from, to] = window.value ?? all;
        const atMs = from + ((event.clientX - left) / width) * (to - from);
        onPoint(spanAt(answer, Math.floor((event.clientY - top) / LANE_HEIGHT), atMs));
      }}
    />
  );
}

function drawSpans(canvas: HTMLCanvasElement, { spans, idle }: SpansAnswer, [from, to]: Range, startMs: number): void {
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d")!;
  pen.scale(scale, scale);
  const place = (ms: number) => ((ms - from) / (to - from)) * width;
  const lanes = new Map(idle.map(({ worker }, i) => [worker, i]));
  pen.fillStyle = colorOf("--line");
  for (const lane of lanes.values()) pen.fillRect(0, lane * LANE_HEIGHT + 3, width, LANE_HEIGHT - 6);
  for (const { worker, stage, startMs: start, endMs } of spans) {
    const left = place(start);
    pen.fillStyle = colorAt(Math.max(0, STAGES.indexOf(stage)));
    pen.fillRect(left, lanes.get(worker)! * LANE_HEIGHT + 5, Math.max(1, place(endMs) - left), LANE_HEIGHT - 10);
  }
  pen.fillStyle = colorOf("--muted");
  pen.font = "12px system-ui, sans-serif";
  const tickMs = tickOf((to - from) / Math.max(2, width / 110));
  for (let ms = Math.ceil((from - startMs) / tickMs) * tickMs; ms <= to - startMs; ms += tickMs) {
    pen.fillRect(place(startMs + ms), 0, 0.5, height - AXIS_HEIGHT + 4);
    pen.fillText(duration(ms), place(startMs + ms) + 3, height - 8);
  }
}

/** 1, 2 or 5 times a power of ten, not below what is asked for. */
function tickOf(ms: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, ms)));
  return power * ([1, 2, 5].find((times) => times * power >= ms) ?? 10);
}

function spanAt({ spans, idle }: SpansAnswer, lane: number, atMs: number): SpanRecord | null {
  const worker = idle[lane]?.worker;
  return spans.findLast((span) => span.worker === worker && span.startMs <= atMs && span.endMs >= atMs) ?? null;
}
