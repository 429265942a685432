/** Several runs in the same charts, and where their configs differ. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { NamedMetric, RunAnswer } from "../../../src/dashboard/answers.ts";
import { fetchAnswer, runPath, useTicks } from "../api.ts";
import { colorAt } from "../charts/colors.ts";
import { MetricCharts } from "../charts/metric-charts.tsx";
import { flattenConfig } from "../flatten-config.ts";
import { Problem } from "../parts/problem.tsx";
import { Status } from "../parts/status.tsx";
import { linkTo, route } from "../route.ts";

const REFRESH_MS = 3000;
/** More differences than this would push the charts off the screen. */
const MAX_OPEN_KEYS = 8;

export function CompareView() {
  const keys = readKeys(route.value.query.get("runs"));
  const { runs, error } = useRuns(keys);
  const metrics = useMemo(() => joinMetrics(runs), [runs]);
  return (
    <div class="page">
      <h1>Compare</h1>
      <Problem text={error} />
      <ul class="legend">
        {runs.map(({ key, info }, index) => (
          <li key={key}>
            <span class="swatch" style={{ background: colorAt(index) }} />
            <a href={linkTo(["runs", key])}>{key}</a> <Status status={info.status} />
          </li>
        ))}
      </ul>
      {runs.length > 0 && <ConfigDiff runs={runs} />}
      {runs.length > 0 && (
        <MetricCharts
          metrics={metrics}
          runs={runs.map(({ key, info, metrics: own }) => ({
            key,
            startMs: Date.parse(info.startedAt),
            revision: own.reduce((sum, { numPoints }) => sum + numPoints, 0),
          }))}
        />
      )}
    </div>
  );
}

function ConfigDiff({ runs }: { readonly runs: readonly RunAnswer[] }) {
  const [isAll, setAll] = useState(false);
  const configs = runs.map(({ config }) => flattenConfig(config));
  const keys = [...new Set(configs.flatMap((config) => [...config.keys()]))];
  const differs = (key: string) => new Set(configs.map((config) => config.get(key))).size > 1;
  const shown = isAll ? keys : keys.filter(differs);
  return (
    <details open={keys.filter(differs).length <= MAX_OPEN_KEYS}>
      <summary>
        Config: {keys.filter(differs).length} of {keys.length} keys differ
      </summary>
      <label>
        <input type="checkbox" checked={isAll} onChange={(event) => setAll(event.currentTarget.checked)} /> all keys
      </label>
      <div class="scroll">
        <table class="diff">
          <thead>
            <tr>
              <th scope="col">key</th>
              {runs.map(({ key }) => (
                <th scope="col" key={key}>
                  {key}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((key) => (
              <tr key={key} class={differs(key) ? "differs" : ""}>
                <th scope="row">{key}</th>
                {configs.map((config, i) => (
                  <td key={runs[i]!.key}>
                    <code>{config.get(key) ?? "–"}</code>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function useRuns(keys: readonly string[]): { readonly runs: readonly RunAnswer[]; readonly error: string | undefined } {
  const ticks = useTicks(REFRESH_MS);
  const [state, setState] = useState<{ runs: readonly RunAnswer[]; error: string | undefined }>({
    runs: [],
    error: undefined,
  });
  const wanted = JSON.stringify(keys);
  // `wanted` stands for the keys, and a tick asks again.
  useEffect(() => {
    const stop = new AbortController();
    Promise.all(keys.map((key) => fetchAnswer<RunAnswer>(runPath(key), stop.signal))).then(
      (runs) => setState({ runs, error: undefined }),
      (error: Error) => {
        if (!stop.signal.aborted) setState((before) => ({ ...before, error: error.message }));
      },
    );
    return () => stop.abort();
  }, [wanted, ticks]);
  return state;
}

/** Every metric that any of the runs has. */
function joinMetrics(runs: readonly RunAnswer[]): readonly NamedMetric[] {
  return [...new Map(runs.flatMap(({ metrics }) => metrics.map((metric) => [metric.name, metric] as const))).values()];
}

function readKeys(text: string | null): readonly string[] {
  try {
    const keys: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(keys) ? keys.filter((key) => typeof key === "string") : [];
  } catch {
    return [];
  }
}
