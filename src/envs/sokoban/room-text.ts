/**
 * Rooms as text and back: the symbol sets, the grid, the rules.
 *
 * Reading checks what the game relies on: a closed border, one player, as many boxes as targets.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { type AnswerTags, answerWords, describeAnswer } from "../answer-format.ts";
import { offsetOf, type Room, SOKOBAN_ACTIONS } from "./room.ts";

/** Rows and columns of the largest room whose offsets are words. */
export const MAX_ROOM_SIZE = 20;

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

/** The grid as text, one row per line. */
export function writeRoom(room: Room, symbols: RoomSymbols): string {
  const { width, height } = room;
  const row = (_: unknown, y: number) =>
    Array.from({ length: width }, (_, x) => symbolAt(room, symbols, y * width + x)).join("");
  return Array.from({ length: height }, row).join("\n");
}

/** The grid with a space between cells and without the border, which is wall everywhere. */
export function writeInside(room: Room, symbols: RoomSymbols): string {
  const rows = writeRoom(room, symbols).split("\n").slice(1, -1);
  return rows.map((row) => [...row.slice(1, -1)].join(" ")).join("\n");
}

/** The next two cells in the direction of each action, in their order. Behind a wall there is wall. */
export function writeSurroundings(room: Room, symbols: RoomSymbols, separator: "" | " "): string {
  const cells = SOKOBAN_ACTIONS.flatMap((_, action) => {
    const offset = offsetOf(room.width, action);
    const next = room.player + offset;
    return [next, room.isWall[next] ? next : next + offset];
  });
  return cells.map((cell) => symbolAt(room, symbols, cell)).join(separator);
}

/**
 * A line per box, four numbers: how many rows down and columns right it is from the player, and its nearest target from it.
 * Negative numbers are up and left.
 */
export function writeOffsets({ width, isTarget, boxes, player }: Room): string {
  const offset = (from: number, to: number) => {
    const rows = Math.floor(to / width) - Math.floor(from / width);
    return [rows, (to % width) - (from % width)] as const;
  };
  const length = ([rows, columns]: readonly [number, number]) => Math.abs(rows) + Math.abs(columns);
  const targets = isTarget.flatMap((isOne, cell) => (isOne ? [cell] : []));
  const lines = boxes.map((box) => {
    const ways = targets.map((target) => offset(box, target));
    const nearest = ways.reduce((best, way) => (length(way) < length(best) ? way : best));
    return [...offset(player, box), ...nearest].join(" ");
  });
  return lines.join("\n");
}

function symbolAt({ isWall, isTarget, boxes, player }: Room, symbols: RoomSymbols, cell: number): string {
  if (isWall[cell]) return symbols.wall;
  if (boxes.includes(cell)) return isTarget[cell] ? symbols.boxOnTarget : symbols.box;
  if (player === cell) return isTarget[cell] ? symbols.playerOnTarget : symbols.player;
  return isTarget[cell] ? symbols.target : symbols.floor;
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
  return new RerollError("DATA_INVALID", `Sokoban level ${name} cannot be played: ${fault}. ${allowed}.`, { name });
}

/** What of a room is told, and how an action is answered. */
interface RoomTelling {
  readonly answerTags: AnswerTags | null;
  readonly showsSurroundings: boolean;
  readonly showsOffsets: boolean;
}

/** What the model is told before the first turn. */
export function roomRules(symbols: RoomSymbols, telling: RoomTelling): string {
  const { answerTags, showsSurroundings, showsOffsets } = telling;
  const floor = symbols.floor === " " ? "space" : symbols.floor;
  return [
    "You move boxes in a warehouse. Push every box onto a target.",
    `The warehouse is a grid: ${symbols.wall} wall, ${floor} floor, ${symbols.target} target, ${symbols.box} box, ` +
      `${symbols.boxOnTarget} box on a target, ${symbols.player} you, ${symbols.playerOnTarget} you on a target.`,
    ...(showsSurroundings
      ? [`The line below it shows the next two cells in each direction: ${SOKOBAN_ACTIONS.join(", ")}.`]
      : []),
    ...(showsOffsets
      ? [
          "The last lines are for the boxes: rows down and columns right from you to the box, then from the box to its nearest target.",
        ]
      : []),
    "Each turn you go one cell. Going into a box pushes it, if the cell behind it is free. You cannot pull, and you cannot push two.",
    `The actions are ${SOKOBAN_ACTIONS.join(", ")}. Write one ${describeAnswer(SOKOBAN_ACTIONS[3]!, answerTags)}`,
  ].join("\n");
}

/** Every word that compact prompts and their answers consist of, for a tokenizer that knows whole words. */
export function compactRoomWords(symbols: RoomSymbols, { answerTags, showsOffsets }: RoomTelling): string[] {
  const offsets = Array.from({ length: 2 * MAX_ROOM_SIZE - 1 }, (_, i) => String(i + 1 - MAX_ROOM_SIZE));
  const words = ["\n", ...Object.values(symbols), ...(showsOffsets ? offsets : [])];
  return [...words, ...answerWords(SOKOBAN_ACTIONS, answerTags).words];
}
