/** One trajectory: what it was worth, and what was said in it, as a conversation, as tokens, or beside its group. */

import type { TrajectoryAnswer } from "../../../src/dashboard/answers.ts";
import { runPath, useAnswer } from "../api.ts";
import { duration, number, signed } from "../format.ts";
import { FactList } from "../parts/fact-list.tsx";
import { Problem } from "../parts/problem.tsx";
import { linkTo, route, setQuery } from "../route.ts";
import { Conversation } from "./conversation.tsx";
import { GroupView } from "./group-view.tsx";
import { TokenView } from "./token-view.tsx";

const TABS = ["conversation", "tokens", "group"] as const;

interface TrajectoryViewProps {
  readonly run: string;
  readonly step: string;
  readonly id: string;
  readonly config: unknown;
}

export function TrajectoryView({ run, step, id, config }: TrajectoryViewProps) {
  const path = `/trajectories/${encodeURIComponent(step)}/${encodeURIComponent(id)}`;
  const { data, error } = useAnswer<TrajectoryAnswer>(runPath(run, path));
  const tab = route.value.query.get("tab") ?? "conversation";
  const answer = data?.record.id === id ? data : undefined;
  if (answer === undefined) return <Problem text={error} />;
  const { record, group, advantage, isAdvantageRecorded } = answer;
  return (
    <>
      <Facts answer={answer} />
      <nav class="samples" aria-label="Samples of the group">
        {group.map((row) => (
          <a
            key={row.id}
            href={linkTo(["runs", run, "trajectories", row.step, row.id], { tab })}
            aria-current={row.id === id ? "true" : undefined}
            title={`Reward ${number(row.reward)}, ${row.end}`}
          >
            {row.sampleIndex}: {number(row.reward)}
          </a>
        ))}
      </nav>
      <div class="tabs small" role="tablist" aria-label="Ways to see it">
        {TABS.map((one) => (
          <button key={one} type="button" role="tab" aria-selected={one === tab} onClick={() => setQuery({ tab: one })}>
            {one}
          </button>
        ))}
      </div>
      {tab === "conversation" && <Conversation record={record} config={config} key={id} />}
      {tab === "tokens" && <TokenView answer={answer} key={id} />}
      {tab === "group" && <GroupView {...{ run, group, config }} />}
      {advantage !== null && !isAdvantageRecorded && (
        <p class="muted">
          <small>The run recorded no advantages: shown is the reward minus the mean of the group.</small>
        </p>
      )}
    </>
  );
}

function Facts({ answer: { record, advantage } }: { readonly answer: TrajectoryAnswer }) {
  const { step, id, prompt, turns, end, reward, fate, reason, timings, metrics } = record;
  const numTokens = turns.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  const facts: readonly (readonly [string, string])[] = [
    ["step", String(step)],
    ["trajectory", id],
    ["reward", number(reward.total)],
    ...Object.entries(reward.parts).map(([name, value]) => [name, number(value)] as const),
    ["advantage", signed(advantage)],
    ["end", "limit" in end ? `${end.kind}: ${end.limit}` : end.kind],
    ["fate", fate === "delivered" ? "trained on" : `${fate}${reason === null ? "" : `: ${reason}`}`],
    ["turns", String(turns.length)],
    ["tokens", String(numTokens)],
    ["took", duration(timings.totalMs)],
    ["domain", prompt.domain],
    ["prompt", prompt.id],
    ...Object.entries(metrics).map(([name, value]) => [name, number(value)] as const),
  ];
  return (
    <>
      <dl class="facts">
        <FactList facts={facts} />
      </dl>
      {end.kind === "failed" && <Problem text={`It failed in ${end.stage}: ${end.message}`} />}
    </>
  );
}
