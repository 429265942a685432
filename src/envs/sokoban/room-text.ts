/**
 * Rooms as text and back: the symbol sets, the grid, the rules.
 *
 * Reading checks what the game relies on: a closed border, one player, as many boxes as targets.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { type AnswerTags, answerWords, describeAnswer } from "../answer-format.ts";
import { type Room, SOKOBAN_ACTIONS } from "./room.ts";

/** One character per kind of cell. */
export interface RoomSymbols {
  readonly wall: string;
  readonly floor: string;
  readonly target: string;
  readonly boxOnTarget: string;
  readonly box: string;
  readonly player: string;
  readonly playerOnTarget: string;
}

/** Named sets: ROLL's, its other vocabulary, and the one that level files are written in. */
export const roomSymbols = {
  roll: { wall: "#", floor: "_", target: "O", boxOnTarget: "√", box: "X", player: "P", playerOnTarget: "S" },
  letters: { wall: "W", floor: ".", target: "G", boxOnTarget: "C", box: "B", player: "A", playerOnTarget: "@" },
  levels: { wall: "#", floor: " ", target: ".", boxOnTarget: "*", box: "$", player: "@", playerOnTarget: "+" },
} as const satisfies Record<string, RoomSymbols>;

/** The grid as text, one row per line, with a separator between the cells of a row. */
export function writeRoom(
  { width, height, isWall, isTarget, boxes, player }: Room,
  symbols: RoomSymbols,
  separator: "" | " " = "",
): string {
  const symbolAt = (cell: number) => {
    if (isWall[cell]) return symbols.wall;
    if (boxes.includes(cell)) return isTarget[cell] ? symbols.boxOnTarget : symbols.box;
    if (player === cell) return isTarget[cell] ? symbols.playerOnTarget : symbols.player;
    return isTarget[cell] ? symbols.target : symbols.floor;
  };
  const row = (_: unknown, y: number) =>
    Array.from({ length: width }, (_, x) => symbolAt(y * width + x)).join(separator);
  return Array.from({ length: height }, row).join("\n");
}

/** The room that a grid of lines shows. `name` stands in error messages. */
export function readRoom(text: string, symbols: RoomSymbols, name: string): Room {
  const lines = text.split("\n");
  const width = Math.max(...lines.map((line) => line.length));
  const cells = lines.flatMap((line) => [...line.padEnd(width, symbols.floor)]);
  const known = new Set<string>(Object.values(symbols));
  const odd = cells.find((cell) => !known.has(cell));
  if (odd !== undefined) throw badRoom(name, `it has the symbol "${odd}"`, `Allowed are ${[...known].join(" ")}`);

  const room = (player: number): Room => ({
    width,
    height: lines.length,
    isWall: cells.map((cell) => cell === symbols.wall),
    isTarget: cells.map((cell) => [symbols.target, symbols.boxOnTarget, symbols.playerOnTarget].includes(cell)),
    boxes: cells.flatMap((cell, i) => (cell === symbols.box || cell === symbols.boxOnTarget ? [i] : [])),
    player,
  });
  const players = cells.flatMap((cell, i) => (cell === symbols.player || cell === symbols.playerOnTarget ? [i] : []));
  const [player] = players;
  if (player === undefined || players.length > 1)
    throw badRoom(name, `it has ${players.length} players`, "One is needed");
  return checkedRoom(room(player), name);
}

function checkedRoom(room: Room, name: string): Room {
  const { width, height, isWall, isTarget, boxes } = room;
  const numTargets = isTarget.filter(Boolean).length;
  if (boxes.length === 0 || boxes.length !== numTargets) {
    throw badRoom(
      name,
      `it has ${boxes.length} boxes and ${numTargets} targets`,
      "As many as targets are needed, and one at least",
    );
  }
  const isBorder = (cell: number) =>
    cell < width || cell >= width * (height - 1) || cell % width === 0 || cell % width === width - 1;
  if (isWall.some((wall, cell) => isBorder(cell) && !wall)) {
    throw badRoom(name, "its border is open", "All cells of the border must be walls");
  }
  return room;
}

function badRoom(name: string, fault: string, allowed: string): RerollError {
  return new RerollError("INVALID_LEVEL", `Sokoban level ${name} cannot be played: ${fault}. ${allowed}.`, { name });
}

/** What the model is told before the first turn. */
export function roomRules(symbols: RoomSymbols, tags: AnswerTags | null): string {
  const floor = symbols.floor === " " ? "space" : symbols.floor;
  return [
    "You move boxes in a warehouse. Push every box onto a target.",
    `The warehouse is a grid: ${symbols.wall} wall, ${floor} floor, ${symbols.target} target, ${symbols.box} box, ` +
      `${symbols.boxOnTarget} box on a target, ${symbols.player} you, ${symbols.playerOnTarget} you on a target.`,
    "Each turn you go one cell. Going into a box pushes it, if the cell behind it is free. You cannot pull, and you cannot push two.",
    `The actions are ${SOKOBAN_ACTIONS.join(", ")}. Write one ${describeAnswer(SOKOBAN_ACTIONS[3]!, tags)}`,
  ].join("\n");
}

/** Every word that compact prompts and their answers consist of, for a tokenizer that knows whole words. */
export function compactRoomWords(symbols: RoomSymbols, tags: AnswerTags | null): string[] {
  return ["\n", ...Object.values(symbols), ...answerWords(SOKOBAN_ACTIONS, tags).words];
}
