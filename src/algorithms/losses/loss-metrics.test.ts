import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { addMetrics, meanOver, readMetrics, shareOf } from "./loss-metrics.ts";

const mask = (values: number[][]) => tensor(values).ne(0);

test("metrics of microbatches of different size add up to the mean of the batch", () => {
  const first = { loss: meanOver(mask([[1, 1, 1]]), tensor([[1, 2, 3]])) };
  const second = { loss: meanOver(mask([[1, 0, 0]]), tensor([[10, 99, 99]])) };
  expect(readMetrics(addMetrics([first, second]))).toEqual({ loss: 4 });
});

test("a share counts what lies in the mask", () => {
  const values = tensor([[1, 5, 5]]);
  expect(readMetrics({ high: shareOf(mask([[1, 1, 0]]), values.gt(2), values) })).toEqual({ high: 0.5 });
});

test("a mean over nothing is left out", () => {
  expect(readMetrics({ loss: meanOver(mask([[0]]), tensor([[Number.NaN]])) })).toEqual({});
});
