import { expect, test } from "vitest";
import type { DataRow } from "../../data/data-row.ts";
import { readLabel, readNumber, readPair, readReply } from "./preference-rows.ts";

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });
const placed = (row: DataRow) => ({ row, file: "pairs.jsonl", index: 6 });
const pairOf = (row: DataRow, fields = {}) => readPair(placed(row), fields);

test("texts of a prompt and two replies are a pair", () => {
  expect(pairOf({ prompt: "Hi", chosen: "Hello!", rejected: "Go away." })).toEqual({
    prompt: [user("Hi")],
    chosen: [assistant("Hello!")],
    rejected: [assistant("Go away.")],
    margin: null,
  });
});

test("columns with other names are read where fields says so", () => {
  const row = { ask: "Hi", good: "Hello!", bad: "No.", by: 2 };
  expect(pairOf(row, { prompt: "ask", chosen: "good", rejected: "bad", margin: "by" })).toMatchObject({
    prompt: [user("Hi")],
    margin: 2,
  });
});

test("the prompt of conversations is what they share, earlier replies too", () => {
  const start = [{ role: "system", content: "Be kind." }, user("Hi"), assistant("Hello!"), user("Bye")];
  const pair = pairOf({ chosen: [...start, assistant("Take care.")], rejected: [...start, assistant("Whatever.")] });
  expect(pair).toMatchObject({ prompt: start, chosen: [assistant("Take care.")], rejected: [assistant("Whatever.")] });
});

test("conversations that part early keep what follows, and one that only goes on parts at the last shared reply", () => {
  const long = [user("a"), assistant("b"), user("c"), assistant("d")];
  expect(pairOf({ chosen: long, rejected: [user("a"), assistant("x")] })).toMatchObject({
    prompt: [user("a")],
    chosen: long.slice(1),
    rejected: [assistant("x")],
  });
  expect(pairOf({ chosen: long, rejected: long.slice(0, 2) })).toMatchObject({
    prompt: [user("a")],
    chosen: long.slice(1),
    rejected: [assistant("b")],
  });
});

test("rows of UltraFeedback's binarized form have the difference of their scores as margin", () => {
  const row = {
    prompt: "Hi",
    chosen: [user("Hi"), assistant("Hello!")],
    rejected: [user("Hi"), assistant("No.")],
    score_chosen: 8,
    score_rejected: 5.5,
  };
  expect(pairOf(row)).toMatchObject({ prompt: [user("Hi")], chosen: [assistant("Hello!")], margin: 2.5 });
});

test("rated completions become the best one and, by chance, one that is rated lower", () => {
  const rated = (response: string, overall_score: number) => ({ response, overall_score });
  const completions = [rated("a", 3), rated("b", 9), rated("c", 9), rated("d", 5)];
  const made = Array.from({ length: 20 }, (_, i) => pairOf({ instruction: `Hi ${i}`, completions }));
  expect(made.every(({ chosen }) => chosen[0]?.content === "b")).toBe(true);
  const rejected = made.map((pair) => `${pair.rejected[0]?.content} ${pair.margin}`);
  expect(new Set(rejected)).toEqual(new Set(["a 6", "d 4"]));
  expect(() => pairOf({ instruction: "Hi", completions: completions.slice(1, 3) })).toThrow(/no two completions/);
});

test("dialogs of HH are cut into turns", () => {
  const start = "\n\nHuman: Hi there\n\nAssistant: Hello!\n\nHuman: One line\n\nand another\n\nAssistant:";
  expect(pairOf({ chosen: `${start} Sure.`, rejected: `${start} No way.` })).toMatchObject({
    prompt: [user("Hi there"), assistant("Hello!"), user("One line\n\nand another")],
    chosen: [assistant("Sure.")],
    rejected: [assistant("No way.")],
  });
});

test("single replies are read from texts and from messages", () => {
  const expected = { prompt: [user("Hi")], reply: [assistant("Hello!")] };
  expect(readReply(placed({ prompt: "Hi", completion: "Hello!" }), {})).toEqual(expected);
  expect(readReply(placed({ prompt: [user("Hi")], response: "Hello!" }), {})).toEqual(expected);
  expect(readReply(placed({ messages: [user("Hi"), assistant("Hello!")] }), {})).toEqual(expected);
});

test("labels are true, false, 1 or 0, and scores are numbers", () => {
  expect([true, 1, false, 0].map((label) => readLabel(placed({ label }), "label"))).toEqual([true, true, false, false]);
  expect(() => readLabel(placed({ label: "good" }), "label")).toThrow('true or false in label: got "good"');
  expect(() => readNumber(placed({ score: null }), "score")).toThrow("number in score: got null");
});

test.each([
  ["equal replies", { prompt: "Hi", chosen: "Same", rejected: "Same" }, "has equal replies in chosen and rejected"],
  ["no prompt", { chosen: "a", rejected: "b" }, "has nothing in prompt"],
  ["a side that is missing", { prompt: "Hi", chosen: "a" }, "has nothing in rejected"],
  ["a side that is null", { prompt: "Hi", chosen: "a", rejected: null }, "has nothing in rejected"],
  ["a reply of nothing", { prompt: "Hi", chosen: "a", rejected: " \n" }, "has an empty reply in rejected"],
  ["a side that is a number", { prompt: "Hi", chosen: 7, rejected: "a" }, "has no list of messages in chosen: got 7"],
  [
    "users who differ",
    { chosen: [user("a"), assistant("b")], rejected: [user("x"), assistant("b")] },
    "has no prompt: chosen and rejected share no message",
  ],
  [
    "the last word of a user",
    { chosen: [user("a"), assistant("b"), user("c")], rejected: [user("a"), assistant("d")] },
    "must end with a message of the assistant in chosen",
  ],
  [
    "a dialog without a reply",
    { chosen: "\n\nHuman: a\n\nAssistant: b", rejected: "\n\nHuman: a" },
    'must end with a message of the assistant in rejected: got one of the role "user"',
  ],
  ["a margin in words", { prompt: "Hi", chosen: "a", rejected: "b", margin: "big" }, 'number in margin: got "big"'],
])("a row with %s is refused, with its file and its number", (_, row, message) => {
  expect(() => pairOf(row as DataRow)).toThrow(`pairs.jsonl row 7 ${message.startsWith("number") ? "must" : message}`);
  expect(() => pairOf(row as DataRow)).toThrow(message);
});
