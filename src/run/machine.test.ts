import { expect, test } from "vitest";
import { exampleRun } from "../../test/cli/example-run.ts";
import { placeRun } from "./machine.ts";
import { resolveRun } from "./resolve-run.ts";

/** Where a run goes on a machine with this many GPUs. */
function placeOn(numGpus: number, options: object) {
  return placeRun(resolveRun({ ...exampleRun, device: "auto", ...options }).config, numGpus);
}

const withRanks = (ranks: number) => ({ ...exampleRun.training, ranks });

test("ranks have a GPU each, from the first one", () => {
  const { device, trainerDevices } = placeOn(4, { training: withRanks(3) });
  expect(device).toBe("cuda:0");
  expect(trainerDevices).toEqual(["cuda:0", "cuda:1", "cuda:2"]);
});

test("ranks are on the devices that placement.trainer lists, and engines on those of their own are processes", () => {
  const { device, trainerDevices, engines } = placeOn(8, {
    training: withRanks(2),
    placement: { trainer: { devices: "6,2" }, engine: { devices: "2-3" } },
  });
  expect(device).toBe("cuda:6");
  expect(trainerDevices).toEqual(["cuda:6", "cuda:2"]);
  expect(engines).toEqual([
    { device: "cuda:2", workers: "threads" },
    { device: "cuda:3", workers: "processes" },
  ]);
});

test("ranks share the devices that are listed where there are fewer of them", () => {
  const { trainerDevices, engines } = placeOn(1, { training: withRanks(4), placement: { trainer: { devices: "0" } } });
  expect(trainerDevices).toEqual(["cuda:0", "cuda:0", "cuda:0", "cuda:0"]);
  expect(engines).toEqual([{ device: "cuda:0", workers: "threads" }]);
});

test("more ranks than GPUs are refused, with the key that lets them share", () => {
  expect(() => placeOn(2, { training: withRanks(4) })).toThrow(
    /^training\.ranks is 4, and this machine has 2 CUDA devices.* placement\.trainer: \{ devices: "0-1" \}\.$/,
  );
});

test("a device that is not there is refused by the key that names it", () => {
  expect(() => placeOn(2, { training: withRanks(2), placement: { trainer: { devices: "1-2" } } })).toThrow(
    /^placement\.trainer\.devices is "1-2", and this machine has 2 CUDA devices: there is no device 2\. Use 0 to 1\.$/,
  );
  expect(() => placeOn(0, { placement: { trainer: { devices: "0" } } })).toThrow(
    /without GPUs everything is on the CPU/,
  );
});
