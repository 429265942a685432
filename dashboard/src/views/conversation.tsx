/** What was said, turn by turn; for FrozenLake and Sokoban with a board to replay it on. */
import { useEffect, useState } from "preact/hooks";
import type { TrajectoryRecord, TurnRecord } from "../../../src/tracking/trajectory-record.ts";
import { BoardPicture } from "../boards/board-picture.tsx";
import { type Board, readBoard } from "../boards/read-board.ts";
import { signed } from "../format.ts";
import { messageText, toolText } from "../parts/message-text.ts";

const PLAY_MS = 700;

export function Conversation({ record, config }: { readonly record: TrajectoryRecord; readonly config: unknown }) {
  const boardOf = (state: string | null) => readBoard(state, config, record.prompt.domain);
  const boards = record.turns.map(({ stateKey }) => boardOf(stateKey));
  const last = boardOf(record.finalStateKey ?? null);
  // What an agent was given is in what it sends; the row of data beside it would be said twice.
  const isAgent = record.turns.some(({ chat }) => chat !== undefined);
  const opening = isAgent ? [] : record.prompt.messages;
  return (
    <>
      {boards.some((board) => board !== null) && <Replay turns={record.turns} boards={boards} last={last} />}
      <ol class="conversation">
        {opening.map((message, i) => (
          <Said key={`prompt ${i}`} {...messageText(message)} />
        ))}
        {record.turns.map((turn, i) => (
          <li key={`turn ${i}`}>
            <ol>
              {turn.messages.map((message, j) => (
                <Said key={`message ${j}`} {...messageText(message)} board={boards[i] ?? null} />
              ))}
              {offersTools(record.turns, i) && (
                <Said speaker="tools" text={(turn.chat?.tools ?? []).map(toolText).join("\n")} />
              )}
              <Said
                speaker="assistant"
                text={turn.chat === undefined ? turn.replyText : messageText(turn.chat.reply).text}
                note={noteOf(turn, i)}
              />
            </ol>
          </li>
        ))}
        {last && (
          <li class="said">
            <div class="who">the end</div>
            <BoardPicture board={last} label="State at the end" />
          </li>
        )}
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

/** Whether the tools of a turn are there and not those of the turn before. */
function offersTools(turns: readonly TurnRecord[], index: number): boolean {
  const textOf = (turn: TurnRecord | undefined) => (turn?.chat?.tools ?? []).map(toolText).join();
  return textOf(turns[index]) !== "" && textOf(turns[index]) !== textOf(turns[index - 1]);
}

function noteOf({ reward, finish, tokenIds, player }: TurnRecord, index: number): string {
  const cut = finish === "stop" ? "" : `, ended by ${finish}`;
  const who = player === undefined ? "" : `${player}, `;
  return `${who}turn ${index + 1}, reward ${signed(reward)}, ${tokenIds.length} tokens${cut}`;
}

interface ReplayProps {
  readonly turns: readonly TurnRecord[];
  /** Before each turn. */
  readonly boards: readonly (Board | null)[];
  /** After all of them; null where it was not recorded. */
  readonly last: Board | null;
}

/** The boards one after the other, under a slider. */
function Replay({ turns, boards, last }: ReplayProps) {
  const [place, setPlace] = useState(0);
  const [isPlaying, setPlaying] = useState(false);
  const end = last === null ? turns.length - 1 : turns.length;
  useEffect(() => {
    if (!isPlaying) return;
    const timer = setTimeout(() => (place < end ? setPlace(place + 1) : setPlaying(false)), PLAY_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, place, end]);
  const turn = turns[place];
  const board = turn === undefined ? last : boards[place];
  const name = turn === undefined ? "the end" : `turn ${place + 1} of ${turns.length}`;
  const play = () => {
    if (place === end) setPlace(0);
    setPlaying(!isPlaying);
  };
  return (
    <section class="replay" aria-label="Replay">
      {board && <BoardPicture board={board} label={turn === undefined ? "At the end" : `Before turn ${place + 1}`} />}
      <div>
        <div class="tools">
          <button type="button" onClick={play}>
            {isPlaying ? "Pause" : "Play"}
          </button>
          <input
            type="range"
            min="0"
            max={end}
            value={place}
            aria-label="Turn"
            aria-valuetext={name}
            onInput={(event) => {
              setPlaying(false);
              setPlace(Number(event.currentTarget.value));
            }}
          />
          <output>{name}</output>
        </div>
        {turn === undefined ? (
          <p>All turns are played. The rewards of the turns add up to {signed(sumOf(turns))}.</p>
        ) : (
          <p>
            The model answers <code>{turn.replyText}</code>, which gives {signed(turn.reward)}.
          </p>
        )}
        {last === null && place === end && <p class="muted">The state after the last reply is not recorded.</p>}
      </div>
    </section>
  );
}

function sumOf(turns: readonly TurnRecord[]): number {
  return turns.reduce((sum, { reward }) => sum + reward, 0);
}
