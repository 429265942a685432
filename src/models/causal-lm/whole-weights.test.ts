import { expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { native } from "../../torch/binding.ts";
import { tensorScope } from "../../torch/scope.ts";
import { type LayerRunner, residentLayers } from "./layer-runner.ts";
import { layersOf, layerWeights, wholeWeights } from "./whole-weights.ts";

test("layers that are gathered one after another are all weights, and one of them is in memory at a time", () => {
  const model = tinyModel(tinyConfig("qwen3", { numLayers: 8 }));
  const asked: (number | null)[] = [];
  const gathered: LayerRunner = {
    ...residentLayers,
    isResident: false,
    withWeights: (layer, body) => {
      asked.push(layer);
      return body();
    },
  };
  tensorScope(() => {
    const whole = wholeWeights(model, { isMerged: true, isKept: true });
    model.runner = gathered;
    const before = native.memoryStats().liveBytes;
    const seen = new Set<string>();
    let most = 0;
    for (const layer of layersOf(model))
      tensorScope(() => {
        const own = layerWeights(model, layer, { isMerged: true, isKept: true });
        most = Math.max(most, native.memoryStats().liveBytes - before);
        for (const [name, value] of own) {
          expect(value.sub(whole.get(name)!).abs().max().item(), name).toBe(0);
          seen.add(name);
        }
      });
    expect([...seen].sort()).toEqual([...whole.keys()].sort());
    expect(asked).toEqual([null, 0, 1, 2, 3, 4, 5, 6, 7]);
    const bytes = [...whole.values()].reduce((sum, { numel }) => sum + 4 * numel, 0);
    expect(most).toBeLessThan(bytes / 3);
  });
  model.dispose();
});
