/** A board as a picture. */
import type { Board, Cell } from "./read-board.ts";

export function BoardPicture({ board, label }: { readonly board: Board; readonly label: string }) {
  const width = board[0]?.length ?? 0;
  return (
    <svg class="board" viewBox={`0 0 ${width} ${board.length}`} role="img" aria-label={`${label}. ${describe(board)}`}>
      {board.flatMap((row, y) => row.map((cell, x) => <BoardCell key={`${x} ${y}`} {...{ cell, x, y }} />))}
    </svg>
  );
}

function BoardCell({ cell: { ground, piece }, x, y }: { readonly cell: Cell; readonly x: number; readonly y: number }) {
  return (
    <g transform={`translate(${x} ${y})`}>
      <rect class={`cell ${ground}`} width="1" height="1" />
      {ground === "hole" && <circle class="hole-inside" cx="0.5" cy="0.5" r="0.36" />}
      {ground === "goal" && <path class="flag" d="M.35 .85V.15L.75 .32 .35 .5" />}
      {ground === "target" && <circle class="target-ring" cx="0.5" cy="0.5" r="0.2" />}
      {piece === "box" && <rect class={`box ${ground}`} x="0.14" y="0.14" width="0.72" height="0.72" rx="0.08" />}
      {piece === "player" && <circle class="player" cx="0.5" cy="0.5" r="0.3" />}
    </g>
  );
}

function describe(board: Board): string {
  const places = board.flatMap((row, y) =>
    row.flatMap(({ piece }, x) => (piece === null ? [] : [`${piece} in row ${y + 1}, column ${x + 1}`])),
  );
  return places.join("; ");
}
