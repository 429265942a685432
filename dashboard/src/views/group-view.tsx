/** The samples of one prompt side by side: rewards, advantages and replies. */
import { useEffect, useState } from "preact/hooks";
import type { TrajectoryAnswer, TrajectoryRow } from "../../../src/dashboard/answers.ts";
import type { TrajectoryRecord } from "../../../src/tracking/trajectory-record.ts";
import { fetchAnswer, runPath } from "../api.ts";
import { BoardPicture } from "../boards/board-picture.tsx";
import { readBoard } from "../boards/read-board.ts";
import { number, signed } from "../format.ts";
import { Problem } from "../parts/problem.tsx";
import { linkTo } from "../route.ts";

interface GroupViewProps {
  readonly run: string;
  readonly group: readonly TrajectoryRow[];
  readonly config: unknown;
}

export function GroupView({ run, group, config }: GroupViewProps) {
  const { records, error } = useRecords(run, group);
  const largest = Math.max(1e-9, ...group.map(({ advantage }) => Math.abs(advantage ?? 0)));
  const [first] = group;
  return (
    <>
      <Problem text={error} />
      <ul class="group" aria-label={`Samples of group ${first?.groupId ?? ""}`}>
        {group.map((row) => (
          <li key={row.id}>
            <header>
              <a href={linkTo(["runs", run, "trajectories", row.step, row.id])}>sample {row.sampleIndex}</a>
              <span>reward {number(row.reward)}</span>
              <AdvantageBar value={row.advantage} largest={largest} />
              <small class="muted">
                {row.end}, {row.numTurns} turns, {row.numTokens} tokens
              </small>
            </header>
            <Replies record={records.get(row.id)} config={config} />
          </li>
        ))}
      </ul>
    </>
  );
}

function AdvantageBar({ value, largest }: { readonly value: number | null; readonly largest: number }) {
  const share = (value ?? 0) / largest;
  return (
    <span class="advantage">
      advantage {signed(value)}
      <span class="bar" aria-hidden="true">
        <span
          class={share >= 0 ? "positive" : "negative"}
          style={{ left: `${50 + Math.min(0, share) * 50}%`, width: `${Math.abs(share) * 50}%` }}
        />
      </span>
    </span>
  );
}

function Replies({ record, config }: { readonly record: TrajectoryRecord | undefined; readonly config: unknown }) {
  if (record === undefined) return <p class="muted">…</p>;
  const last = readBoard(record.finalStateKey ?? null, config, record.prompt.domain);
  return (
    <ol class="replies">
      {record.turns.map(({ replyText, stateKey, reward }, i) => {
        const board = readBoard(stateKey, config, record.prompt.domain);
        return (
          <li key={`turn ${i}`}>
            {board && <BoardPicture board={board} label={`Before turn ${i + 1}`} />}
            <pre>{replyText}</pre>
            <small class="muted">{signed(reward)}</small>
          </li>
        );
      })}
      {last && (
        <li>
          <BoardPicture board={last} label="At the end" />
          <small class="muted">the end</small>
        </li>
      )}
    </ol>
  );
}

/** Whole records, one after the other: a group can be large. */
function useRecords(run: string, group: readonly TrajectoryRow[]) {
  const [records, setRecords] = useState<ReadonlyMap<string, TrajectoryRecord>>(new Map());
  const [error, setError] = useState<string>();
  const ids = group.map(({ id }) => id).join();
  // `ids` stands for the group.
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      for (const { step, id } of group) {
        const path = `/trajectories/${step}/${encodeURIComponent(id)}`;
        const { record } = await fetchAnswer<TrajectoryAnswer>(runPath(run, path), stop.signal);
        setRecords((before) => new Map([...before, [id, record]]));
      }
    };
    load().catch((failure: Error) => !stop.signal.aborted && setError(failure.message));
    return () => stop.abort();
  }, [run, ids]);
  return { records, error };
}
