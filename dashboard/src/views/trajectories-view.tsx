/**
 * The trajectories of a run: filters, order, and a list of any length.
 *
 * Filters stand in the address. Rows are asked for page by page as they come into sight.
 */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { TrajectoriesAnswer, TrajectoryRow } from "../../../src/dashboard/answers.ts";
import { fetchAnswer, runPath } from "../api.ts";
import { number, signed } from "../format.ts";
import { Problem } from "../parts/problem.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import { linkTo, route, setQuery } from "../route.ts";

const PAGE = 100;
const ROW_HEIGHT = 36;
const READING_MS = 500;
const BOUNDS = ["step", "reward", "tokens"] as const;
const COLUMNS = [
  ["step", "step"],
  ["reward", "reward"],
  ["advantage", "advantage"],
  ["numTurns", "turns"],
  ["numTokens", "tokens"],
] as const;

export function TrajectoriesView({ run, revision }: { readonly run: string; readonly revision: number }) {
  const filter = Object.fromEntries(route.value.query);
  const { pages, summary, error, want } = usePages(run, filter, revision);
  const rowAt = (index: number) => pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  if (summary?.numTotal === 0 && !summary.isReading) {
    return (
      <p class="muted">
        This run has recorded no trajectories. A run of a vector environment has none; others record them as{" "}
        <code>tracking.trajectoriesEvery</code> says.
      </p>
    );
  }
  return (
    <>
      <Filters summary={summary} filter={filter} />
      <Problem text={error} />
      <p class="muted" role="status">
        {summary === undefined
          ? "Reading…"
          : `${summary.numMatching} of ${summary.numTotal} trajectories${summary.isReading ? ", still reading" : ""}`}
      </p>
      <div class="trajectory-row head">
        {COLUMNS.map(([key, label]) => (
          <SortButton key={key} {...{ label, name: key, filter }} />
        ))}
        <span>end</span>
        <span class="wide-only">domain</span>
        <span class="wide-only">group, sample</span>
      </div>
      <VirtualList
        label="Trajectories"
        numRows={summary?.numMatching ?? 0}
        rowHeight={ROW_HEIGHT}
        onRange={want}
        renderRow={(index) => <Row run={run} row={rowAt(index)} />}
      />
    </>
  );
}

function Row({ run, row }: { readonly run: string; readonly row: TrajectoryRow | undefined }) {
  if (row === undefined) return <div class="trajectory-row muted">…</div>;
  return (
    <a class={`trajectory-row ${row.fate}`} href={linkTo(["runs", run, "trajectories", row.step, row.id])}>
      <span class="number">{row.step}</span>
      <span class="number">{number(row.reward)}</span>
      <span class={`number ${signOf(row.advantage)}`}>{signed(row.advantage)}</span>
      <span class="number">{row.numTurns}</span>
      <span class="number">{row.numTokens}</span>
      <span class="ellipsis">{row.fate === "delivered" ? row.end : `${row.end} (${row.fate})`}</span>
      <span class="wide-only ellipsis">{row.domain}</span>
      <span class="wide-only ellipsis muted">
        {row.groupId}, {row.sampleIndex}
      </span>
    </a>
  );
}

type Filter = Readonly<Record<string, string>>;

function Filters({ summary, filter }: { readonly summary: TrajectoriesAnswer | undefined; readonly filter: Filter }) {
  const choice = (name: string, values: readonly string[]) => (
    <label key={name}>
      {name}
      <select value={filter[name] ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        <option value="">any</option>
        {values.map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
    </label>
  );
  const bound = (name: string, side: "Min" | "Max") => (
    <input
      type="number"
      step="any"
      aria-label={`${name}, ${side === "Min" ? "at least" : "at most"}`}
      placeholder={side === "Min" ? "from" : "to"}
      value={filter[`${name}${side}`] ?? ""}
      onInput={(event) => setQuery({ [`${name}${side}`]: event.currentTarget.value })}
    />
  );
  return (
    <fieldset class="tools filters" aria-label="Filters">
      {BOUNDS.map((name) => (
        <span key={name} class="bounds">
          {name} {bound(name, "Min")}–{bound(name, "Max")}
        </span>
      ))}
      {choice("end", summary?.ends ?? [])}
      {choice("domain", summary?.domains ?? [])}
      {choice("fate", ["delivered", "baseline", "filtered", "failed"])}
      <a class="button" href={linkTo(route.value.path)}>
        Clear
      </a>
    </fieldset>
  );
}

function SortButton({
  name,
  label,
  filter,
}: {
  readonly name: string;
  readonly label: string;
  readonly filter: Filter;
}) {
  const isChosen = (filter.sort ?? "step") === name;
  const isUp = filter.order === "up";
  return (
    <button
      type="button"
      class="bare number"
      aria-label={`Sort by ${label}${isChosen ? (isUp ? ", now upwards" : ", now downwards") : ""}`}
      onClick={() => setQuery({ sort: name, order: isChosen && !isUp ? "up" : "down" })}
    >
      {label} {isChosen ? (isUp ? "↑" : "↓") : ""}
    </button>
  );
}

/** Pages of rows by number, for one filter; all are asked for again when there is something new. */
function usePages(run: string, filter: Filter, revision: number) {
  const search = JSON.stringify(filter);
  const [answers, setAnswers] = useState<ReadonlyMap<number, TrajectoriesAnswer>>(new Map());
  const [error, setError] = useState<string>();
  const [range, setRange] = useState([0, 0]);
  const [round, setRound] = useState(0);
  const asked = useRef(new Set<number>());
  const stop = useRef(new AbortController());

  // Another filter or something new makes all pages old.
  useEffect(() => {
    stop.current.abort();
    stop.current = new AbortController();
    asked.current.clear();
    setRange(([first, last]) => [first!, last!]);
  }, [run, search, revision, round]);

  // Asks for the pages in sight; `search` stands for the filter.
  useEffect(() => {
    const { signal } = stop.current;
    const [first = 0, last = 0] = range;
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(0, last - 1) / PAGE); page++) {
      if (asked.current.has(page)) continue;
      const isFirst = asked.current.size === 0;
      asked.current.add(page);
      fetchAnswer<TrajectoriesAnswer>(
        runPath(run, "/trajectories", { ...filter, offset: page * PAGE, limit: PAGE }),
        signal,
      ).then(
        (answer) => {
          if (signal.aborted) return;
          setError(undefined);
          setAnswers((before) => new Map([...(isFirst ? [] : before), [page, answer]]));
          if (answer.isReading && isFirst) setTimeout(() => setRound((before) => before + 1), READING_MS);
        },
        (failure: Error) => {
          if (!signal.aborted) setError(failure.message);
        },
      );
    }
  }, [range, run, search, revision, round]);

  const want = useCallback((first: number, last: number) => setRange([first, last]), []);
  const pages = new Map([...answers].map(([page, { rows }]) => [page, rows]));
  return { pages, summary: [...answers.values()].at(-1), error, want };
}

function signOf(value: number | null): string {
  return value === null || value === 0 ? "" : value > 0 ? "positive" : "negative";
}
