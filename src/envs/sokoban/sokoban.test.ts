import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { describeTextEnvContract } from "../../../test/contracts/text-env.contract.ts";
import { oracleAgent, playEpisode } from "../play-episode.ts";
import { readLevel, readLevels } from "./read-levels.ts";
import { readRoom, roomSymbols } from "./room-text.ts";
import { SokobanEnv, sokoban, sokobanOptions, sokobanVariants } from "./sokoban.ts";

const boxoban = fileURLToPath(new URL("../../../../shared/data/boxoban", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "reroll-sokoban-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "000.txt"), "; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#    #\n# $@ #\n#.   #\n######\n");
writeFileSync(
  join(folder, "001.txt"),
  "; 0\r\n########\r\n#  .   #\r\n# $  $ #\r\n#  @   #\r\n#.    ##\r\n########\r\n",
);

const build = (options: Record<string, unknown> = {}) => sokoban.build(sokobanOptions.parse(options));
const envOf = (lines: readonly string[], options: Record<string, unknown> = {}) =>
  new SokobanEnv(readRoom(lines.join("\n"), roomSymbols.levels, "test"), sokobanOptions.parse(options));
const told = (env: SokobanEnv) => env.start().observation.messages[0]?.content;
const say = (env: SokobanEnv, word: string) => env.step({ text: `<answer>${word}</answer>`, isCut: false });

for (const [name, options] of Object.entries(sokobanVariants)) {
  describeTextEnvContract(`sokoban, ${name}`, () => build(options), { isOracleSure: true, needsOracle: true });
}
describeTextEnvContract("sokoban, levels", () => build({ levels: folder }), { isOracleSure: true, needsOracle: true });

test("a step costs 0.1, a box on a target pays 1, one that leaves costs 1", () => {
  const env = envOf(["#######", "#@$. .#", "#   $ #", "#     #", "#######"]);
  expect(say(env, "Right").reward).toBeCloseTo(0.9);
  expect(say(env, "Right").reward).toBeCloseTo(-1.1);
  expect(say(env, "Right").reward).toBeCloseTo(0.9);
  expect(say(env, "Left").reward).toBeCloseTo(-0.1);
  expect(env.render()).toBe("#######\n#__S_√#\n#___X_#\n#_____#\n#######");
});

test("the last box pays 10 more and ends the episode", () => {
  const step = say(envOf(["#####", "#@$.#", "#####"]), "right");
  expect(step.reward).toBeCloseTo(10.9);
  expect(step).toMatchObject({ kind: "terminated", metrics: { success: 1, valid_action: 1, effective_action: 1 } });
});

test("a blocked move is valid, has no effect and costs its step", () => {
  const step = say(envOf(["#####", "#@$.#", "#####"]), "Up");
  expect(step).toMatchObject({ kind: "continues", reward: -0.1, metrics: { valid_action: 1, effective_action: 0 } });
});

test("a reply that cannot be read costs its step and the penalty", () => {
  const env = envOf(["#####", "#@$.#", "#####"], { formatPenalty: 0.5 });
  const step = env.step({ text: "Right", isCut: false });
  expect(step.reward).toBeCloseTo(-0.6);
  expect(step.metrics).toEqual({ valid_action: 0, effective_action: 0 });
  expect(step.observation?.stateKey).toBe("#####\n#PXO#\n#####");
});

test("maxTurns cuts the episode off", () => {
  const env = envOf(["#####", "#@$.#", "#####"], { maxTurns: 1 });
  expect(say(env, "Up")).toMatchObject({ kind: "truncated", metrics: { success: 0 } });
  expect(() => say(env, "Up")).toThrow(/after its episode had ended/);
});

test("the other vocabulary has the same room in other symbols", () => {
  expect(envOf(["#####", "#@$.#", "#####"], { symbols: "letters" }).render()).toBe("WWWWW\nWABGW\nWWWWW");
});

test("the oracle finds its way again after moves that were not its own", async () => {
  const env = envOf(["######", "#    #", "# $@ #", "#.   #", "######"]);
  expect(env.oracleReply()).toBe("<answer> Left </answer>");
  say(env, "Right");
  const { metrics, turns } = await playEpisode(env, oracleAgent());
  expect([metrics.success, turns.length]).toEqual([1, 5]);
});

test("the oracle knows no reply where a box is lost", () => {
  expect(envOf(["#####", "#$  #", "# @.#", "#####"]).oracleReply()).toBeNull();
});

test("generated rooms take minMoves to maxTurns moves", async () => {
  const { makeEnv, makePrompt } = build({ minMoves: 6, maxTurns: 8 });
  for (let seed = 0; seed < 50; seed++) {
    const { turns, metrics } = await playEpisode(await makeEnv(makePrompt!(seed), 0), oracleAgent());
    expect(metrics.success).toBe(1);
    expect(turns.length).toBeGreaterThanOrEqual(6);
    expect(turns.length).toBeLessThanOrEqual(8);
  }
});

test("levels are read in the order of files, with any line ends", () => {
  const levels = readLevels(folder);
  expect(levels.map(({ name }) => name)).toEqual(["000.txt/0", "000.txt/1", "001.txt/0"]);
  expect(readLevel(levels[2]!)).toMatchObject({ width: 8, height: 6, player: 27 });
});

test("a folder without levels is refused with its name", () => {
  expect(() => readLevels(join(folder, "none"))).toThrow(/none does not exist/);
  writeFileSync(join(folder, "empty.txt"), "");
  expect(() => readLevels(join(folder, "empty.txt"))).toThrow(/holds no Sokoban levels/);
  rmSync(join(folder, "empty.txt"));
});

test.skipIf(!existsSync(boxoban))(
  "the oracle solves samples of Boxoban (skipped without ../shared/data/boxoban)",
  async () => {
    for (const set of ["medium-train", "medium-valid", "hard"]) {
      const levels = readLevels(join(boxoban, set));
      for (let i = 0; i < 12; i++) {
        const level = levels[Math.floor((i * levels.length) / 12)]!;
        const env = new SokobanEnv(readLevel(level), sokobanOptions.parse({ maxTurns: 1000 }));
        const { metrics } = await playEpisode(env, oracleAgent());
        expect({ name: level.name, success: metrics.success }).toEqual({ name: level.name, success: 1 });
      }
    }
  },
);

test("compact prompts are the grid inside the outer walls, in words that the tokenizer is told", () => {
  const env = envOf(["#####", "#@$.#", "#####"], { prompt: "compact", symbols: "levels" });
  const { instructions, observation } = env.start();
  expect(instructions).toEqual([]);
  expect(observation.messages).toEqual([{ role: "user", content: "@ $ ." }]);
  const unread = env.step({ text: "Right", isCut: false });
  expect(unread.observation?.messages).toEqual(observation.messages);
  const { words } = build({ prompt: "compact", symbols: "levels" });
  expect(words).toEqual({
    words: ["\n", "#", "_", ".", "*", "$", "@", "+", "Up", "Down", "Left", "Right", "<answer>", "</answer>"],
    endWords: ["</answer>"],
  });
  expect(build()).not.toHaveProperty("words");
});

test("surroundings show the next two cells up, down, left and right, and wall behind a wall", () => {
  const env = envOf(["#####", "# . #", "# $ #", "# @ #", "#####"], { showsSurroundings: true });
  expect(told(env)).toBe("#####\n#_O_#\n#_X_#\n#_P_#\n#####\nXO##_#_#");
  const compact = envOf(["#####", "#@$.#", "#####"], { showsSurroundings: true, prompt: "compact" });
  expect(told(compact)).toBe("P X O\n# # # # # # X O");
});

test("offsets lead from the player to each box and from there to its nearest target, down and right", () => {
  const env = envOf(["#######", "#.$   #", "#   @ #", "#   $.#", "#######"], { showsOffsets: true });
  expect(told(env)).toMatch(/#\n-1 -2 0 -1\n1 0 0 1$/);
  const { words } = build({ prompt: "compact", showsOffsets: true }).words!;
  expect(words).toEqual(expect.arrayContaining(["-19", "0", "19"]));
});

test("the rules explain the lines below the grid where there are some", () => {
  const rules = (options: object) =>
    JSON.stringify(envOf(["#####", "#@$.#", "#####"], { ...options }).start().instructions);
  expect(rules({})).not.toMatch(/next two cells|nearest target/);
  expect(rules({ showsSurroundings: true })).toMatch(/next two cells in each direction: Up, Down, Left, Right/);
  expect(rules({ showsOffsets: true })).toMatch(/rows down and columns right from you to the box/);
});

test("no layout of the validation part is ever in the training part", async () => {
  const layouts = async (part: string) => {
    const { makeEnv, makePrompt } = build({ part, maxTurns: 10, symbols: "levels" });
    const envs = await Promise.all(Array.from({ length: 1500 }, (_, seed) => makeEnv(makePrompt!(seed), 0)));
    return envs.map((env) => env.render!().replaceAll(/[@$]/g, " ").replaceAll(/[+*]/g, "."));
  };
  const trained = new Set(await layouts("train"));
  const validated = await layouts("validation");
  expect(trained.size).toBeGreaterThan(500);
  expect(validated.filter((layout) => trained.has(layout))).toEqual([]);
});
