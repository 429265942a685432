import { expect, test } from "vitest";
import { tensor } from "../../../torch/create.ts";
import { layoutOf, readGroups, widthOf } from "./observation-layout.ts";

const layout = layoutOf({ obs: { start: 1, size: 2 }, priv: { start: 3, size: 1 }, cmd: { start: 0, size: 1 } });

test("groups are read in the order they are asked for", () => {
  const rows = tensor([
    [10, 20, 21, 30],
    [11, 22, 23, 31],
  ]);
  expect(readGroups(rows, layout, ["obs", "object", "cmd"]).toArray()).toEqual([20, 21, 10, 22, 23, 11]);
  expect(widthOf(layout, ["obs", "object", "cmd"])).toBe(3);
});

test("an environment without privileged observations is refused", () => {
  expect(() => layoutOf({ obs: { start: 0, size: 2 } })).toThrow(
    "Adaptation needs an environment with the observation groups obs and priv: got obs.",
  );
  expect(() => layoutOf(undefined)).toThrow("got none");
});
