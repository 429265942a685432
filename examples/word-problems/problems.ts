/**
 * Word problems of one step, made from templates: a task that a small chat model can learn and that has an answer to check.
 *
 * Held-out problems tell other stories in other words, so what is measured is reading a problem, not remembering a template.
 */

/** A row of data. */
export interface WordProblem extends Record<string, string> {
  readonly question: string;
  readonly answer: string;
  /** What a worked reply says: the sum and its answer. */
  readonly solution: string;
}

/** `count` problems, the same for the same seed. Large numbers have up to four digits, and want a calculator. */
export function wordProblems(
  part: "training" | "held-out",
  count: number,
  seed: number,
  size: "small" | "large" = "small",
): WordProblem[] {
  const next = randomSource(part === "training" ? seed : seed + 1_000_003);
  const stories = part === "training" ? trainingStories : heldOutStories;
  const names = part === "training" ? trainingNames : heldOutNames;
  const things = part === "training" ? trainingThings : heldOutThings;
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(next() * items.length)] as Item;
  return Array.from({ length: count }, () => {
    const story = pick(stories);
    const { a, b, result } = (size === "small" ? numbersOf : largeNumbersOf)(story.operation, next);
    const name = pick(names);
    const other = pick(names.filter((candidate) => candidate !== name));
    const words: Record<string, string> = { name, other, things: pick(things), a: String(a), b: String(b) };
    const question = story.text.replace(/\{(\w+)\}/g, (_, key: string) => words[key] ?? "");
    const sum = `${a} ${signs[story.operation]} ${b} = ${result}`;
    return { question, answer: String(result), solution: `${sum}. The answer is ${result}.` };
  });
}

const signs = { add: "+", subtract: "-", multiply: "*", divide: "/" } as const;

type Operation = keyof typeof signs;

/** A story of two numbers; with `subtract` the first is larger, with `divide` it is a multiple of the second. */
interface Story {
  readonly operation: Operation;
  readonly text: string;
}

function numbersOf(operation: Operation, next: () => number): { a: number; b: number; result: number } {
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  switch (operation) {
    case "add": {
      const [a, b] = [between(3, 60), between(3, 39)];
      return { a, b, result: a + b };
    }
    case "subtract": {
      const [b, result] = [between(3, 39), between(2, 60)];
      return { a: b + result, b, result };
    }
    case "multiply": {
      const [a, b] = [between(2, 12), between(2, 12)];
      return { a, b, result: a * b };
    }
    case "divide": {
      const [b, result] = [between(2, 10), between(2, 12)];
      return { a: b * result, b, result };
    }
  }
}

function largeNumbersOf(operation: Operation, next: () => number): { a: number; b: number; result: number } {
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  switch (operation) {
    case "add": {
      const [a, b] = [between(300, 6000), between(300, 3900)];
      return { a, b, result: a + b };
    }
    case "subtract": {
      const [b, result] = [between(300, 3900), between(200, 6000)];
      return { a: b + result, b, result };
    }
    case "multiply": {
      const [a, b] = [between(12, 99), between(12, 99)];
      return { a, b, result: a * b };
    }
    case "divide": {
      const [b, result] = [between(12, 99), between(12, 99)];
      return { a: b * result, b, result };
    }
  }
}

/** Mulberry32: 32 bits of state, numbers in [0, 1). */
function randomSource(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const trainingNames =
  "Anna Ben Carla David Elena Felix Grace Henry Ida Jonas Kira Leo Maria Nico Olga Paul Rosa Sam Tina Victor".split(
    " ",
  );
const heldOutNames = "Amir Beatriz Chidi Dora Emre Fatima Goran Hana Ivo Jamila".split(" ");
const trainingThings =
  "apples books pencils coins stamps marbles cookies stickers shells cards flowers eggs balls buttons oranges toys".split(
    " ",
  );
const heldOutThings = "candles badges lemons magnets postcards ribbons walnuts keys".split(" ");

const trainingStories: readonly Story[] = [
  {
    operation: "add",
    text: "{name} has {a} {things}. {other} gives {name} {b} more. How many {things} does {name} have now?",
  },
  {
    operation: "add",
    text: "There are {a} {things} in a box and {b} {things} on a table. How many {things} are there altogether?",
  },
  {
    operation: "add",
    text: "{name} found {a} {things} in the morning and {b} in the evening. How many {things} did {name} find?",
  },
  {
    operation: "add",
    text: "A shop sold {a} {things} on Monday and {b} on Tuesday. How many {things} did it sell on both days?",
  },
  { operation: "add", text: "{name} is {a} years old. {other} is {b} years older. How old is {other}?" },
  {
    operation: "add",
    text: "A train carries {a} people. At a station {b} people get on. How many people are on the train now?",
  },
  {
    operation: "subtract",
    text: "{name} had {a} {things} and gave {b} of them to {other}. How many {things} are left?",
  },
  {
    operation: "subtract",
    text: "A basket holds {a} {things}. {name} takes out {b}. How many {things} remain in the basket?",
  },
  {
    operation: "subtract",
    text: "{name} has {a} {things} and {other} has {b}. How many more {things} does {name} have than {other}?",
  },
  { operation: "subtract", text: "A book has {a} pages. {name} has read {b} pages. How many pages are left to read?" },
  {
    operation: "subtract",
    text: "{name} had {a} dollars and spent {b} dollars on lunch. How many dollars does {name} still have?",
  },
  {
    operation: "subtract",
    text: "There were {a} birds in a tree. {b} birds flew away. How many birds are still in the tree?",
  },
  {
    operation: "multiply",
    text: "{name} buys {a} bags with {b} {things} in each bag. How many {things} does {name} buy?",
  },
  {
    operation: "multiply",
    text: "A room has {a} rows of chairs with {b} chairs in every row. How many chairs are in the room?",
  },
  { operation: "multiply", text: "{name} reads {a} pages every day. How many pages does {name} read in {b} days?" },
  { operation: "multiply", text: "One box costs {a} dollars. How many dollars do {b} boxes cost?" },
  {
    operation: "multiply",
    text: "Each of {a} children has {b} {things}. How many {things} do the children have in all?",
  },
  {
    operation: "multiply",
    text: "A machine makes {a} {things} per hour. How many {things} does it make in {b} hours?",
  },
  {
    operation: "divide",
    text: "{name} shares {a} {things} equally among {b} friends. How many {things} does each friend get?",
  },
  {
    operation: "divide",
    text: "{a} {things} are put into {b} boxes, the same number in each. How many {things} are in one box?",
  },
  {
    operation: "divide",
    text: "{name} needs {b} dollars for each ticket and has {a} dollars. How many tickets can {name} buy?",
  },
  { operation: "divide", text: "A ribbon of {a} meters is cut into pieces of {b} meters. How many pieces are there?" },
  {
    operation: "divide",
    text: "{name} walks {a} kilometers in {b} days, equally far each day. How many kilometers does {name} walk per day?",
  },
  {
    operation: "divide",
    text: "A class of {a} students is split into {b} equal teams. How many students are in each team?",
  },
];

const heldOutStories: readonly Story[] = [
  {
    operation: "add",
    text: "{name} planted {a} trees last year and {b} trees this year. What is the total number of trees that {name} planted?",
  },
  {
    operation: "add",
    text: "A library owned {a} {things}. It received {b} more as a gift. What is the number of {things} it owns now?",
  },
  {
    operation: "add",
    text: "{name} scored {a} points in the first game and {b} in the second. What is {name}'s score over both games?",
  },
  {
    operation: "subtract",
    text: "A farmer had {a} sheep, and sold {b} of them at the market. How many sheep does the farmer keep?",
  },
  { operation: "subtract", text: "{name} needs {a} {things} and already has {b}. How many {things} are missing?" },
  {
    operation: "subtract",
    text: "A bus had {a} passengers. After a stop there were {b} fewer. How many passengers stayed on the bus?",
  },
  {
    operation: "multiply",
    text: "A bakery fills {a} trays, and each tray takes {b} rolls. How many rolls does the bakery make?",
  },
  {
    operation: "multiply",
    text: "{name} earns {a} dollars an hour and works for {b} hours. What does {name} earn in dollars?",
  },
  {
    operation: "multiply",
    text: "There are {a} shelves. On every shelf stand {b} {things}. How many {things} stand on the shelves?",
  },
  { operation: "divide", text: "{name} packs {a} {things} into packets of {b}. How many packets does {name} fill?" },
  {
    operation: "divide",
    text: "A prize of {a} dollars is divided evenly between {b} winners. How many dollars does every winner receive?",
  },
  {
    operation: "divide",
    text: "{a} cars stand in a parking lot with {b} cars in every row. How many rows of cars are there?",
  },
];
