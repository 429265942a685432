import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import { Parameter } from "../nn/module.ts";
import { decayMatrices, resolveGroups, withPrefix } from "./parameter-group.ts";

const matrix = new Parameter(tensor([[1]]));
const vector = new Parameter(tensor([1]));

test("decayMatrices decays weights with two dimensions and nothing else", () => {
  const groups = decayMatrices(
    new Map([
      ["weight", matrix],
      ["bias", vector],
    ]),
    0.1,
  );
  expect(groups.map(({ parameters, weightDecay }) => [[...parameters.keys()], weightDecay])).toEqual([
    [["weight"], 0.1],
    [["bias"], 0],
  ]);
  expect(decayMatrices(new Map([["weight", matrix]]), 0.1)).toHaveLength(1);
});

test("groups take what they do not set from the defaults", () => {
  const [first, second] = resolveGroups(
    [{ parameters: new Map([["a", matrix]]), lr: 2 }, { parameters: new Map([["b", vector]]) }],
    {
      lr: 1,
      eps: 3,
    },
  );
  expect([first!.lr, first!.baseLr, first!.eps]).toEqual([2, 2, 3]);
  expect([second!.lr, second!.baseLr, second!.eps]).toEqual([1, 1, 3]);
});

test("a parameter in two groups is refused", () => {
  const groups = [{ parameters: new Map([["a", matrix]]) }, { parameters: new Map([["b", matrix]]) }];
  expect(() => resolveGroups(groups, { lr: 1 })).toThrow(
    'Parameter "b" is in the optimizer\'s groups already, as "a".',
  );
});

test("two parameters of one name are refused, and a prefix tells them apart", () => {
  const actor = new Map([["weight", matrix]]);
  const critic = new Map([["weight", vector]]);
  expect(() => resolveGroups([{ parameters: actor }, { parameters: critic }], { lr: 1 })).toThrow(
    'Two parameters are called "weight".',
  );
  const named = new Map([...withPrefix("actor", actor), ...withPrefix("critic", critic)]);
  expect([...named.keys()]).toEqual(["actor.weight", "critic.weight"]);
  expect(resolveGroups(named, { lr: 1 })).toHaveLength(1);
});

test("no parameters are refused", () => {
  expect(() => resolveGroups(new Map(), { lr: 1 })).toThrow("The optimizer got no parameters.");
});
