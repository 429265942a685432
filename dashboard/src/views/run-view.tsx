/** One run: what it is and how it stands, and the views of it. */
import type { RunAnswer } from "../../../src/dashboard/answers.ts";
import { runPath, useAnswer } from "../api.ts";
import { MetricCharts } from "../charts/metric-charts.tsx";
import { type Live, useLive } from "../live.ts";
import { Problem } from "../parts/problem.tsx";
import { Status } from "../parts/status.tsx";
import { Warnings } from "../parts/warnings.tsx";
import { linkTo, route } from "../route.ts";
import { ConfigView } from "./config-view.tsx";
import { TimelineView } from "./timeline-view.tsx";
import { TrajectoriesView } from "./trajectories-view.tsx";
import { TrajectoryView } from "./trajectory-view.tsx";

const TABS = ["overview", "trajectories", "timeline", "config"] as const;

export function RunView({ run }: { readonly run: string }) {
  const live = useLive(run);
  const { data, error } = useAnswer<RunAnswer>(runPath(run), live.metrics);
  const [, , tab = "overview", step, id] = route.value.path;
  const info = live.info ?? data?.info;
  return (
    <div class={`page ${tab === "trajectories" && id === undefined ? "fill" : ""}`}>
      <div class="run-head">
        {info !== undefined && (
          <>
            <Status status={info.status} />
            <span class="muted">
              {info.recipe} · {info.model.split("/").at(-1)} · seed {info.seed}
            </span>
          </>
        )}
        <Connection live={live} isRunning={info?.status === "running"} />
      </div>
      <nav class="tabs" aria-label="Views of the run">
        {TABS.map((one) => (
          <a key={one} href={linkTo(["runs", run, one])} aria-current={one === tab ? "page" : undefined}>
            {one}
          </a>
        ))}
      </nav>
      <Problem text={live.message ?? error} />
      {info?.error && <Problem text={`The run failed: ${info.error}`} />}
      {data !== undefined && tab === "overview" && <Overview answer={data} live={live} />}
      {tab === "trajectories" && step === undefined && <TrajectoriesView run={run} revision={live.trajectories} />}
      {tab === "trajectories" && step !== undefined && id !== undefined && (
        <TrajectoryView {...{ run, step, id }} config={data?.config} />
      )}
      {tab === "timeline" && <TimelineView run={run} revision={live.spans} />}
      {data !== undefined && tab === "config" && <ConfigView config={data.config} info={data.info} />}
    </div>
  );
}

function Overview({ answer, live }: { readonly answer: RunAnswer; readonly live: Live }) {
  const { key, info, metrics, warnings } = answer;
  return (
    <>
      <Warnings warnings={warnings} />
      {metrics.length === 0 && <p class="muted">No step is over yet. Charts begin with the first one.</p>}
      <MetricCharts runs={[{ key, startMs: Date.parse(info.startedAt), revision: live.metrics }]} metrics={metrics} />
    </>
  );
}

function Connection({ live: { connection }, isRunning }: { readonly live: Live; readonly isRunning: boolean }) {
  const live = isRunning ? "live" : "connected";
  const texts = { connecting: "connecting", live, lost: "connection lost, trying again", gone: "gone", saved: "saved" };
  return (
    <span class={`connection ${connection}`} role="status">
      {texts[connection]}
    </span>
  );
}
