/** What was said, turn by turn; for FrozenLake and Sokoban with a board to replay it on. */
import { useEffect, useState } from "preact/hooks";
import type { TrajectoryRecord, TurnRecord } from "../../../src/tracking/trajectory-record.ts";
import { BoardPicture } from "../boards/board-picture.tsx";
import { type Board, readBoard } from "../boards/read-board.ts";
import { signed } from "../format.ts";
import { messageText } from "../parts/message-text.ts";

const PLAY_MS = 700;

export function Conversation({ record, config }: { readonly record: TrajectoryRecord; readonly config: unknown }) {
  const boards = record.turns.map(({ stateKey }) => readBoard(stateKey, config, record.prompt.domain));
  return (
    <>
      {boards.some((board) => board !== null) && <Replay turns={record.turns} boards={boards} />}
      <ol class="conversation">
        {record.prompt.messages.map((message, i) => (
          <Said key={`prompt ${i}`} {...messageText(message)} />
        ))}
        {record.turns.map((turn, i) => (
          <li key={`turn ${i}`}>
            <ol>
              {turn.messages.map((message, j) => (
                <Said key={`message ${j}`} {...messageText(message)} board={boards[i] ?? null} />
              ))}
              <Said speaker="assistant" text={turn.replyText} note={noteOf(turn, i)} />
            </ol>
          </li>
        ))}
      </ol>
    </>
  );
}

interface SaidProps {
  readonly speaker: string;
  readonly text: string;
  readonly note?: string;
  readonly board?: Board | null;
}

function Said({ speaker, text, note, board }: SaidProps) {
  return (
    <li class={`said ${speaker === "assistant" ? "assistant" : ""}`}>
      <div class="who">
        {speaker} {note !== undefined && <span class="muted">{note}</span>}
      </div>
      <div class="text-and-board">
        <pre>{text}</pre>
        {board && <BoardPicture board={board} label="State of this turn" />}
      </div>
    </li>
  );
}

function noteOf({ reward, finish, tokenIds }: TurnRecord, index: number): string {
  const cut = finish === "stop" ? "" : `, ended by ${finish}`;
  return `turn ${index + 1}, reward ${signed(reward)}, ${tokenIds.length} tokens${cut}`;
}

/** The boards one after the other, under a slider. */
function Replay({
  turns,
  boards,
}: {
  readonly turns: readonly TurnRecord[];
  readonly boards: readonly (Board | null)[];
}) {
  const [turn, setTurn] = useState(0);
  const [isPlaying, setPlaying] = useState(false);
  const last = turns.length - 1;
  useEffect(() => {
    if (!isPlaying) return;
    const timer = setTimeout(() => (turn < last ? setTurn(turn + 1) : setPlaying(false)), PLAY_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, turn, last]);
  const board = boards[turn];
  const play = () => {
    if (turn === last) setTurn(0);
    setPlaying(!isPlaying);
  };
  return (
    <section class="replay" aria-label="Replay">
      {board && <BoardPicture board={board} label={`Before turn ${turn + 1}`} />}
      <div>
        <div class="tools">
          <button type="button" onClick={play}>
            {isPlaying ? "Pause" : "Play"}
          </button>
          <input
            type="range"
            min="0"
            max={last}
            value={turn}
            aria-label="Turn"
            aria-valuetext={`Turn ${turn + 1} of ${last + 1}`}
            onInput={(event) => {
              setPlaying(false);
              setTurn(Number(event.currentTarget.value));
            }}
          />
          <output>
            turn {turn + 1} of {last + 1}
          </output>
        </div>
        <p>
          The model answers <code>{turns[turn]?.replyText}</code>, which gives {signed(turns[turn]?.reward ?? 0)}.
        </p>
        {turn === last && <p class="muted">The state after the last reply is not recorded.</p>}
      </div>
    </section>
  );
}
