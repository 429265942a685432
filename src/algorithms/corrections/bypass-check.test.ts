import { expect, test } from "vitest";
import { expectBypass } from "./bypass-check.ts";

test("bypass mode refuses several epochs and says why", () => {
  expect(() => expectBypass({ isBypass: true, numEpochs: 4 })).toThrow(
    /bypass mode takes the ratio against the sampler.*got 4.*Set numEpochs to 1/,
  );
});

test("one epoch, no bypass, or being told to are fine", () => {
  expectBypass({ isBypass: true, numEpochs: 1 });
  expectBypass({ isBypass: false, numEpochs: 4 });
  expectBypass({ isBypass: true, numEpochs: 4, allowsSeveralEpochs: true });
});
