import { expect, test } from "vitest";
import { planShards } from "./plan-shards.ts";

const sized = (...sizes: number[]) => sizes.map((byteLength, index) => ({ name: `t${index}`, byteLength }));

test("tensors that fit one file need no index", () => {
  expect(planShards(sized(4, 6), 10)).toEqual({
    shards: [{ fileName: "model.safetensors", tensorNames: ["t0", "t1"] }],
    index: null,
  });
});

test("a new file begins when the next tensor would pass the limit", () => {
  // 4 + 6 = 10 fits, 1 does not; 12 is over the limit and stands alone.
  const plan = planShards(sized(4, 6, 1, 12, 3), 10);
  expect(plan.shards).toEqual([
    { fileName: "model-00001-of-00004.safetensors", tensorNames: ["t0", "t1"] },
    { fileName: "model-00002-of-00004.safetensors", tensorNames: ["t2"] },
    { fileName: "model-00003-of-00004.safetensors", tensorNames: ["t3"] },
    { fileName: "model-00004-of-00004.safetensors", tensorNames: ["t4"] },
  ]);
  expect(plan.index?.totalSize).toBe(26);
  expect(plan.index?.weightMap.get("t3")).toBe("model-00003-of-00004.safetensors");
});

test("the default limit is 5 GB", () => {
  expect(planShards(sized(5_000_000_000)).shards).toHaveLength(1);
  expect(planShards(sized(5_000_000_000, 1)).shards).toHaveLength(2);
});

test("an empty checkpoint is one empty file", () => {
  expect(planShards([]).shards).toEqual([{ fileName: "model.safetensors", tensorNames: [] }]);
});

test("a limit of zero and a name given twice are refused", () => {
  expect(() => planShards([], 0)).toThrow("maxShardBytes must be above 0: got 0.");
  expect(() => planShards([...sized(1), ...sized(1)])).toThrow('Tensor "t0" is given twice');
});
