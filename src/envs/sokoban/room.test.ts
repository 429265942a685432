import { expect, test } from "vitest";
import { isSolved, moveInRoom, numBoxesOnTargets } from "./room.ts";
import { readRoom, roomSymbols, writeRoom } from "./room-text.ts";

const [UP, DOWN, RIGHT] = [0, 1, 3] as const;
const read = (...lines: string[]) => readRoom(lines.join("\n"), roomSymbols.levels, "test");
const after = (room: ReturnType<typeof read>, ...actions: number[]) => actions.reduce(moveInRoom, room);
const show = (room: ReturnType<typeof read>) => writeRoom(room, roomSymbols.levels).split("\n");

test("the player walks over floor and targets and stops at walls", () => {
  const room = read("#####", "#@. #", "# $ #", "#####");
  expect(show(after(room, RIGHT))[1]).toBe("# + #");
  expect(show(after(room, RIGHT, RIGHT))[1]).toBe("# .@#");
  expect(after(room, UP)).toBe(room);
});

test("a box is pushed onto floor and targets, and off them", () => {
  const room = read("#######", "#@$ .$#", "#  .  #", "#######");
  expect(show(after(room, RIGHT))[1]).toBe("# @$.$#");
  expect(show(after(room, RIGHT, RIGHT))[1]).toBe("#  @*$#");
  expect(show(after(room, DOWN, RIGHT, UP))).toEqual(show(after(room, DOWN, RIGHT)));
});

test("two boxes in a row do not move, nor does one at a wall", () => {
  const room = read("#######", "#@$$..#", "#######");
  expect(after(room, RIGHT)).toBe(room);
  const atWall = read("#####", "#.@$#", "#####");
  expect(after(atWall, RIGHT)).toBe(atWall);
});

test("nothing is pulled", () => {
  expect(show(after(read("######", "#.$@ #", "######"), RIGHT))[1]).toBe("#.$ @#");
});

test("a room is solved when every box is on a target", () => {
  const room = read("######", "#@$.*#", "######");
  expect([numBoxesOnTargets(room), isSolved(room)]).toEqual([1, false]);
  const solved = after(room, RIGHT);
  expect([numBoxesOnTargets(solved), isSolved(solved)]).toEqual([2, true]);
});

test.each([
  ["a player", ["#####", "# $.#", "#####"], /0 players/],
  ["one player", ["#####", "#@@ #", "#$. #", "#####"], /2 players/],
  ["as many boxes as targets", ["#####", "#@$ #", "#####"], /1 boxes and 0 targets/],
  ["a closed border", ["#####", "#@$. ", "#####"], /border is open/],
  ["known symbols", ["#####", "#@$?#", "#####"], /symbol "\?"/],
])("a level needs %s", (_, lines, message) => {
  expect(() => read(...lines)).toThrow(message);
});

test.each(Object.entries(roomSymbols))("a room written in the symbols %s is read back", (_, symbols) => {
  const room = read("######", "#+$ *#", "#  $.#", "######");
  expect(readRoom(writeRoom(room, symbols), symbols, "test")).toEqual(room);
});
