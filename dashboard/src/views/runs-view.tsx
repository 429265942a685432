/** All runs: find some, look at one, compare several. */
import { useMemo, useState } from "preact/hooks";
import type { ListedRun, RunsAnswer, SummaryAnswer } from "../../../src/dashboard/answers.ts";
import { runPath, useAnswer, useTicks } from "../api.ts";
import { Sparkline } from "../charts/sparkline.tsx";
import { age, duration, number } from "../format.ts";
import { Problem } from "../parts/problem.tsx";
import { Status } from "../parts/status.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import { linkTo, route, setQuery } from "../route.ts";

const REFRESH_MS = 3000;
const ROW_HEIGHT = 56;

export function RunsView() {
  const ticks = useTicks(REFRESH_MS);
  const { data, error } = useAnswer<RunsAnswer>("api/runs", ticks);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const { query } = route.value;
  const [search, tag] = [query.get("search") ?? "", query.get("tag")];
  const runs = data?.runs;
  const shown = useMemo(() => (runs ?? []).filter((run) => fits(run, search, tag)), [runs, search, tag]);
  const tags = [...new Set((runs ?? []).flatMap(({ info }) => info.tags))].sort();
  const toggle = (key: string) =>
    setChosen(chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key]);
  return (
    <div class="page fill">
      <h1>Runs</h1>
      <Problem text={error} />
      <div class="tools" role="toolbar" aria-label="Runs">
        <input
          type="search"
          placeholder="Name, recipe, model, status, tag"
          aria-label="Find runs"
          size={30}
          value={search}
          onInput={(event) => setQuery({ search: event.currentTarget.value })}
        />
        {tags.map((one) => (
          <button
            key={one}
            type="button"
            class="tag"
            aria-pressed={one === tag}
            onClick={() => setQuery({ tag: one === tag ? "" : one })}
          >
            {one}
          </button>
        ))}
        {chosen.length > 1 ? (
          <a class="button" href={linkTo(["compare"], { runs: JSON.stringify(chosen) })}>
            Compare {chosen.length} runs
          </a>
        ) : (
          <small class="muted">Tick two or more to compare them.</small>
        )}
      </div>
      {runs?.length === 0 && <p class="muted">There are no runs here yet. They show up when they start.</p>}
      {shown.length > 0 && (
        <div class="run-row head" aria-hidden="true">
          <span />
          <span class="status-head">status</span>
          <span>run</span>
          <span class="wide-only">recipe</span>
          <span class="wide-only">model</span>
          <span>reward</span>
          <span class="number">last</span>
          <span class="number wide-only">steps</span>
          <span class="number">age</span>
        </div>
      )}
      <VirtualList
        label="Runs"
        numRows={shown.length}
        rowHeight={ROW_HEIGHT}
        renderRow={(index) => {
          const run = shown[index]!;
          return (
            <RunRow
              key={run.key}
              run={run}
              isChosen={chosen.includes(run.key)}
              onToggle={() => toggle(run.key)}
              ticks={ticks}
            />
          );
        }}
      />
    </div>
  );
}

interface RunRowProps {
  readonly run: ListedRun;
  readonly isChosen: boolean;
  readonly onToggle: () => void;
  readonly ticks: number;
}

function RunRow({ run: { key, info }, isChosen, onToggle, ticks }: RunRowProps) {
  const { data } = useAnswer<SummaryAnswer>(runPath(key, "/summary"), info.status === "running" ? ticks : 0);
  const lasted =
    info.endedAt === null ? "" : `, took ${duration(Date.parse(info.endedAt) - Date.parse(info.startedAt))}`;
  return (
    <div class="run-row">
      <input type="checkbox" checked={isChosen} onChange={onToggle} aria-label={`Compare ${key}`} />
      <Status status={info.status} />
      <a href={linkTo(["runs", key])} class="run-name">
        {key}
        <small class="muted">{info.tags.map((tag) => `#${tag}`).join(" ")}</small>
      </a>
      <span class="wide-only ellipsis" title={info.recipe}>
        {info.recipe}
      </span>
      <span class="wide-only ellipsis" title={info.model}>
        {info.model.split("/").at(-1)}
      </span>
      <Sparkline values={data?.rewards ?? []} />
      <span class="number">{number(data?.lastReward)}</span>
      <span class="number wide-only">
        {data?.lastStep ?? "–"}/{info.numSteps}
      </span>
      <span class="number" title={`Started ${info.startedAt}${lasted}`}>
        {age(info.startedAt)}
      </span>
    </div>
  );
}

function fits({ key, info }: ListedRun, search: string, tag: string | null): boolean {
  const text = [key, info.name, info.recipe, info.model, info.status, ...info.tags].join(" ").toLowerCase();
  const words = search.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word)) && (tag === null || info.tags.includes(tag));
}
