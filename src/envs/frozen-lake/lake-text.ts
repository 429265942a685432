/** How a lake reads: the symbols of its cells, the rules, and the words of the compact form. */
import { type AnswerTags, answerWords, describeAnswer } from "../answer-format.ts";
import { LAKE_ACTIONS, type LakeMap, neighbor } from "./lake-map.ts";

/** One word per kind of cell. */
export interface LakeSymbols {
  readonly player: string;
  readonly ice: string;
  readonly hole: string;
  readonly goal: string;
  readonly playerInHole: string;
  readonly playerOnGoal: string;
}

/** ROLL's symbols. */
export const lakeSymbols: LakeSymbols = {
  player: "P",
  ice: "_",
  hole: "O",
  goal: "G",
  playerInHole: "X",
  playerOnGoal: "√",
};

/** The grid as text, one row per line. */
export function writeLake(map: LakeMap, position: number, symbols: LakeSymbols, separator: "" | " "): string {
  const { size } = map;
  const symbolAt = (cell: number) => symbolOf(map, position, symbols, cell);
  const row = (_: unknown, y: number) => Array.from({ length: size }, (_, x) => symbolAt(y * size + x)).join(separator);
  return Array.from({ length: size }, row).join("\n");
}

/** What each action leads to, in their order. At the shore that is the player's own cell. */
export function writeSurroundings(map: LakeMap, position: number, symbols: LakeSymbols, separator: "" | " "): string {
  const cells = LAKE_ACTIONS.map((_, action) => neighbor(map.size, position, action));
  return cells.map((cell) => symbolOf(map, position, symbols, cell)).join(separator);
}

function symbolOf({ isHole, goal }: LakeMap, position: number, symbols: LakeSymbols, cell: number): string {
  if (cell === position)
    return isHole[cell] ? symbols.playerInHole : cell === goal ? symbols.playerOnGoal : symbols.player;
  return isHole[cell] ? symbols.hole : cell === goal ? symbols.goal : symbols.ice;
}

/** What the model is told before the first turn. */
export function lakeRules(
  symbols: LakeSymbols,
  tags: AnswerTags | null,
  { isSlippery, showsSurroundings }: { readonly isSlippery: boolean; readonly showsSurroundings: boolean },
): string {
  const slip = isSlippery
    ? " The ice is slippery: one time in three you go where you want, otherwise to the left or the right of it."
    : "";
  return [
    "You walk over a frozen lake to a goal. Do not step into a hole.",
    `The lake is a grid: ${symbols.player} you, ${symbols.ice} ice, ${symbols.hole} hole, ${symbols.goal} goal, ` +
      `${symbols.playerInHole} you in a hole, ${symbols.playerOnGoal} you on the goal.`,
    ...(showsSurroundings ? [`The last line shows what lies in each direction: ${LAKE_ACTIONS.join(", ")}.`] : []),
    `Each turn you go one cell. The actions are ${LAKE_ACTIONS.join(", ")}.${slip}`,
    `Write one action ${describeAnswer(LAKE_ACTIONS[2]!, tags)}`,
  ].join("\n");
}

/** Every word that compact prompts and their answers consist of, for a tokenizer that knows whole words. */
export function compactWords(
  symbols: LakeSymbols = lakeSymbols,
  tags: AnswerTags | null = { open: "<answer>", close: "</answer>" },
): string[] {
  return ["\n", ...Object.values(symbols), ...answerWords(LAKE_ACTIONS, tags).words];
}
