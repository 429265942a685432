/**
 * Sokoban: push every box onto a target.
 *
 * Rooms are generated from the prompt's seed, or picked with it from Boxoban's level files. Rewards are gym-sokoban's: -0.1 a
 * step, +1 when a box comes onto a target, -1 when one leaves it, +10 when all are on. A reply that cannot be read is a step
 * without a move and costs `formatPenalty` besides. Generated rooms can be
 * solved within `maxTurns`.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import { answerWords, optionalTagOptions, readChoice, unreadNotice, writeAnswer } from "../answer-format.ts";
import { episodeEnded } from "../episode-ended.ts";
import { isInPart, layoutPart } from "../layout-part.ts";
import { seedPrompt } from "../seed-prompt.ts";
import type { EnvDefinition, EnvStep, Observation, Opening, Reply, TextEnv } from "../text-env.ts";
import { generateRoom } from "./generate-room.ts";
import { readLevel, readLevels } from "./read-levels.ts";
import { isSolved, moveInRoom, numBoxesOnTargets, type Room, SOKOBAN_ACTIONS } from "./room.ts";
import {
  compactRoomWords,
  MAX_ROOM_SIZE,
  type RoomSymbols,
  roomRules,
  roomSymbols,
  writeInside,
  writeOffsets,
  writeRoom,
  writeSurroundings,
} from "./room-text.ts";
import { solveRoom } from "./solve-room.ts";

const STEP_REWARD = -0.1;
const BOX_REWARD = 1;
const SOLVED_REWARD = 10;
/** Rooms with too short or too long a solution are drawn again, this often at most. */
const MAX_ROOMS = 1000;

const symbol = z.string().length(1);

/** What a run file can say about Sokoban. */
export const sokobanOptions = z.strictObject({
  size: z
    .int()
    .min(5)
    .max(MAX_ROOM_SIZE)
    .default(6)
    .describe("Number of rows and columns of generated rooms, outer walls included."),
  numBoxes: z.int().min(1).max(4).default(1).describe("Number of boxes in generated rooms."),
  levels: z.string().exactOptional().describe("Folder of Boxoban's level files, to use instead of generated rooms."),
  minMoves: z.int().min(1).default(1).describe("Minimum number of moves in the shortest solution of a generated room."),
  part: layoutPart.describe(
    "Part of the generated rooms to draw from. A fifth of all layouts of walls and targets is reserved for validation, whatever the seed.",
  ),
  maxTurns: z.int().positive().default(30).describe("Number of replies after which the episode is cut off."),
  formatPenalty: z
    .number()
    .min(0)
    .default(0.1)
    .describe("Penalty for a reply that cannot be read, on top of the cost of its step."),
  prompt: z
    .enum(["full", "compact"])
    .default("full")
    .describe("Text of the prompt: rules and grid (full), or the symbols inside the outer walls alone (compact)."),
  showsSurroundings: z
    .boolean()
    .default(false)
    .describe("Add a line with the next two cells in each direction, in the order up, down, left, right."),
  showsOffsets: z
    .boolean()
    .default(false)
    .describe(
      "Add a line per box: rows down and columns right from the player to it, and from it to its nearest target.",
    ),
  instructions: z.string().min(1).exactOptional().describe("Rules to use instead of the built-in ones."),
  answerTags: optionalTagOptions,
  symbols: z
    .union([
      z.enum(["roll", "letters", "levels"]),
      z
        .strictObject({
          wall: symbol,
          floor: symbol,
          target: symbol,
          boxOnTarget: symbol,
          box: symbol,
          player: symbol,
          playerOnTarget: symbol,
        })
        .refine((symbols) => new Set(Object.values(symbols)).size === 7, "symbols must differ from each other"),
    ])
    .default("roll")
    .describe("A named set of symbols, or one character per kind of cell."),
});

/** The options with their defaults filled in. */
type SokobanOptions = z.output<typeof sokobanOptions>;

/** Settings in use elsewhere, by name: ROLL's simple, larger and other-vocabulary rooms, and its paper's larger ones. */
export const sokobanVariants = {
  simple: { size: 6, numBoxes: 1 },
  larger: { size: 10, numBoxes: 2, maxTurns: 60 },
  "larger-paper": { size: 8, numBoxes: 2, maxTurns: 60 },
  "other-vocabulary": { size: 6, numBoxes: 1, symbols: "letters" },
} as const satisfies Record<string, z.input<typeof sokobanOptions>>;

/** The environment as the catalog has it. */
export const sokoban: EnvDefinition<typeof sokobanOptions> = {
  type: "sokoban",
  options: sokobanOptions,
  build: (options) => {
    const levels = options.levels === undefined ? null : readLevels(options.levels);
    return {
      ...(options.prompt === "compact" && {
        words: {
          words: compactRoomWords(symbolsOf(options), options),
          endWords: answerWords(SOKOBAN_ACTIONS, options.answerTags).endWords,
        },
      }),
      makePrompt: (seed) => seedPrompt("sokoban", seed),
      makeEnv: (prompt) => {
        const random = new Random(deriveSeed(prompt.seed, "sokoban"));
        if (levels !== null) return new SokobanEnv(readLevel(random.pick(levels)), options);
        const { room, solution } = drawRoom(options, random);
        return new SokobanEnv(room, options, solution);
      },
    };
  },
};

function drawRoom(options: SokobanOptions, random: Random): { room: Room; solution: number[] } {
  const { size, numBoxes, minMoves, maxTurns, part } = options;
  for (let attempt = 0; attempt < MAX_ROOMS; attempt++) {
    const room = generateRoom(options, random);
    if (!isInPart(layoutOf(room), part)) continue;
    const solution = solveRoom(room);
    if (solution !== null && solution.length >= minMoves && solution.length <= maxTurns) return { room, solution };
  }
  throw new RerollError(
    "NO_SOLVABLE_MAP",
    `None of ${MAX_ROOMS} rooms of size ${size} with ${numBoxes} boxes took ${minMoves} to ${maxTurns} moves. ` +
      "Raise maxTurns, or lower minMoves.",
    { size, numBoxes, minMoves, maxTurns },
  );
}

/** What stays the same as the game goes on, so that no state of a room is in both parts. */
function layoutOf({ isWall, isTarget }: Room): string {
  return isWall.map((wall, cell) => (wall ? "#" : isTarget[cell] ? "." : " ")).join("");
}

/** One game in one room. */
export class SokobanEnv implements TextEnv {
  readonly #options: SokobanOptions;
  #room: Room;
  /** The actions that solve the room from here; null where there are none, undefined where they have to be found. */
  #solution: readonly number[] | null | undefined;
  #numTurns = 0;
  #hasEnded = false;

  constructor(room: Room, options: SokobanOptions, solution?: readonly number[]) {
    this.#room = room;
    this.#options = options;
    this.#solution = solution;
  }

  start(): Opening {
    const { prompt, instructions } = this.#options;
    const rules = instructions ?? (prompt === "full" ? roomRules(symbolsOf(this.#options), this.#options) : null);
    return {
      instructions: rules === null ? [] : [{ role: "system", content: rules }],
      observation: this.#observe(true),
    };
  }

  step({ text }: Reply): EnvStep {
    if (this.#hasEnded) throw episodeEnded("sokoban");
    const { answerTags, formatPenalty, maxTurns } = this.#options;
    const action = readChoice(text, answerTags, SOKOBAN_ACTIONS);
    const before = this.#room;
    if (action !== null) this.#move(action);
    this.#numTurns++;

    const hasWon = isSolved(this.#room);
    this.#hasEnded = hasWon || this.#numTurns >= maxTurns;
    return {
      kind: hasWon ? "terminated" : this.#hasEnded ? "truncated" : "continues",
      reward: rewardOf(before, this.#room) - (action === null ? formatPenalty : 0),
      metrics: {
        valid_action: Number(action !== null),
        effective_action: Number(this.#room !== before),
        ...(this.#hasEnded ? { success: Number(hasWon) } : {}),
      },
      observation: this.#observe(action !== null),
    };
  }

  randomReply(random: Random): string {
    return writeAnswer(random.pick(SOKOBAN_ACTIONS), this.#options.answerTags);
  }

  /** The first move of a shortest solution; of one with the fewest pushes where the shortest takes too long to find. */
  oracleReply(): string | null {
    this.#solution ??= solveRoom(this.#room) ?? solveRoom(this.#room, { cost: "pushes", maxStates: 1_000_000 });
    const [action] = this.#solution ?? [];
    return action === undefined ? null : writeAnswer(SOKOBAN_ACTIONS[action]!, this.#options.answerTags);
  }

  render(): string {
    return writeRoom(this.#room, symbolsOf(this.#options));
  }

  #move(action: number): void {
    const next = moveInRoom(this.#room, action);
    if (next === this.#room) return;
    this.#solution = this.#solution?.[0] === action ? this.#solution.slice(1) : undefined;
    this.#room = next;
  }

  #observe(wasRead: boolean): Observation {
    const { prompt, showsSurroundings, showsOffsets, answerTags } = this.#options;
    const symbols = symbolsOf(this.#options);
    const isCompact = prompt === "compact";
    const grid = isCompact ? writeInside(this.#room, symbols) : writeRoom(this.#room, symbols);
    const notice = wasRead || isCompact ? "" : unreadNotice(answerTags);
    const lines = [
      notice + grid,
      ...(showsSurroundings ? [writeSurroundings(this.#room, symbols, isCompact ? " " : "")] : []),
      ...(showsOffsets ? [writeOffsets(this.#room)] : []),
    ];
    return { messages: [{ role: "user", content: lines.join("\n") }], stateKey: grid };
  }
}

/** A space cannot be a word of its own: compact grids show such floors as ROLL does. */
function symbolsOf({ symbols, prompt }: SokobanOptions): RoomSymbols {
  const chosen = typeof symbols === "string" ? roomSymbols[symbols] : symbols;
  return prompt === "compact" && chosen.floor === " " ? { ...chosen, floor: roomSymbols.roll.floor } : chosen;
}

/** What gym-sokoban pays for the step between two states. */
function rewardOf(before: Room, after: Room): number {
  const change = Math.sign(numBoxesOnTargets(after) - numBoxesOnTargets(before));
  return STEP_REWARD + BOX_REWARD * change + (isSolved(after) ? SOLVED_REWARD : 0);
}
