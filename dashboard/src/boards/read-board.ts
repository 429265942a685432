/**
 * A state of FrozenLake or Sokoban as cells.
 *
 * In: the state of a turn as text, and the config of its environment, which says what each symbol means. Out: rows of cells; null for
 * other environments and for text that is no grid.
 */
import type { LakeSymbols } from "../../../src/envs/frozen-lake/lake-text.ts";
import type { RoomSymbols } from "../../../src/envs/sokoban/room-text.ts";

/** What a cell holds: its ground, and what stands on it. */
export interface Cell {
  readonly ground: "ice" | "hole" | "goal" | "wall" | "floor" | "target";
  readonly piece: "player" | "box" | null;
}

/** Rows from the top. */
export type Board = readonly (readonly Cell[])[];

/** The environments' own, again: their files would bring all of their checks into the page. A test keeps both alike. */
export const boardSymbols: {
  readonly lake: LakeSymbols;
  readonly rooms: Readonly<Record<"roll" | "letters" | "levels", RoomSymbols>>;
} = {
  lake: { player: "P", ice: "_", hole: "O", goal: "G", playerInHole: "X", playerOnGoal: "√" },
  rooms: {
    roll: { wall: "#", floor: "_", target: "O", boxOnTarget: "√", box: "X", player: "P", playerOnTarget: "S" },
    letters: { wall: "W", floor: ".", target: "G", boxOnTarget: "C", box: "B", player: "A", playerOnTarget: "@" },
    levels: { wall: "#", floor: " ", target: ".", boxOnTarget: "*", box: "$", player: "@", playerOnTarget: "+" },
  },
};

type Meaning = ReadonlyMap<string, Cell>;

/** Reads a state with the meanings that the run's config gives its environment. */
export function readBoard(state: string | null, config: unknown, domain: string): Board | null {
  const env = envOf(config, domain);
  if (state === null || env === null) return null;
  const meaning = env.type === "sokoban" ? roomMeaning(env.symbols) : lakeMeaning(env.symbols);
  const rows = state.split("\n").map((line) => cellsOf(line, meaning));
  const isGrid = rows.every((row): row is Cell[] => row !== null && row.length === rows[0]?.length);
  return isGrid ? rows : null;
}

/** Either one character per cell, or words with a space between them. */
function cellsOf(line: string, meaning: Meaning): readonly Cell[] | null {
  for (const symbols of [[...line], line.split(" ")]) {
    const cells = symbols.map((symbol) => meaning.get(symbol));
    if (cells.length > 0 && cells.every((cell) => cell !== undefined)) return cells;
  }
  return null;
}

interface GridEnv {
  readonly type: "sokoban" | "frozen-lake";
  readonly symbols: unknown;
}

/** The environment of a domain; that of a run with only one, whatever the domain is called. */
function envOf(config: unknown, domain: string): GridEnv | null {
  const envs = asRecord(asRecord(config).envs);
  const only = Object.values(envs).length === 1 ? Object.values(envs)[0] : undefined;
  const { type, symbols } = asRecord(envs[domain] ?? only);
  return type === "sokoban" || type === "frozen-lake" ? { type, symbols } : null;
}

function roomMeaning(given: unknown): Meaning {
  const named = typeof given === "string" ? asRecord(boardSymbols.rooms)[given] : given;
  const symbols = { ...boardSymbols.rooms.roll, ...asRecord(named) } as RoomSymbols;
  return new Map<string, Cell>([
    [symbols.wall, { ground: "wall", piece: null }],
    [symbols.floor, { ground: "floor", piece: null }],
    [symbols.target, { ground: "target", piece: null }],
    [symbols.boxOnTarget, { ground: "target", piece: "box" }],
    [symbols.box, { ground: "floor", piece: "box" }],
    [symbols.player, { ground: "floor", piece: "player" }],
    [symbols.playerOnTarget, { ground: "target", piece: "player" }],
  ]);
}

function lakeMeaning(given: unknown): Meaning {
  const symbols = { ...boardSymbols.lake, ...asRecord(given) } as LakeSymbols;
  return new Map<string, Cell>([
    [symbols.ice, { ground: "ice", piece: null }],
    [symbols.hole, { ground: "hole", piece: null }],
    [symbols.goal, { ground: "goal", piece: null }],
    [symbols.player, { ground: "ice", piece: "player" }],
    [symbols.playerInHole, { ground: "hole", piece: "player" }],
    [symbols.playerOnGoal, { ground: "goal", piece: "player" }],
  ]);
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
