import { describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { gradients, noGrad } from "../../torch/autograd.ts";
import { randint, randn, tensor } from "../../torch/create.ts";
import { memoryStats, resetPeakMemory } from "../../torch/memory.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { CausalLm } from "./causal-lm.ts";
import { familyNames } from "./families/table.ts";
import { greedy } from "./greedy.ts";
import { createPreset } from "./presets.ts";
import { packedLayout, paddedLayout } from "./token-layout.ts";
import { tokenLogprobs, weightedCrossEntropy } from "./token-logprobs.ts";

function someIds(count: number, vocabSize = 29): Tensor {
  return randint(0, vocabSize, [count], { generator: new Generator(3) });
}

function maxDifference(a: Tensor, b: Tensor): number {
  return a.to("float32").sub(b.to("float32")).abs().max().item();
}

test.each(familyNames)("a recomputed %s has the output and the gradients of a plain one", (family) => {
  const model = tinyModel(tinyConfig(family));
  tensorScope(() => {
    const layout = packedLayout([5, 3, 1]);
    const direction = randn([9, 16], { generator: new Generator(4) });
    const run = (recompute: boolean) => {
      const hidden_SD = model.forward(someIds(9), layout, { recompute });
      return { hidden_SD, grads: gradients([hidden_SD], model.parameters(), { gradOutputs: [direction] }) };
    };
    const plain = run(false);
    const recomputed = run(true);
    expect(maxDifference(recomputed.hidden_SD, plain.hidden_SD)).toBe(0);
    // An untied head is not part of forward.
    recomputed.grads.forEach((grad, i) => {
      const expected = plain.grads[i] ?? null;
      if (expected === null) expect(grad).toBeNull();
      else expect(maxDifference(grad!, expected)).toBeLessThan(1e-5);
    });
  });
  model.dispose();
});

test("checkpointing keeps a layer's input and not what is between", () => {
  const model = createPreset("nano", 32, 1);
  const peakOf = (recompute: boolean) =>
    tensorScope(() => {
      const ids_S = someIds(512, 32);
      const layout = paddedLayout(8, 64);
      const { liveBytes } = memoryStats();
      resetPeakMemory();
      tensorScope(() => model.forward(ids_S, layout, { recompute }).sum().backward());
      model.zeroGrad();
      return memoryStats().peakBytes - liveBytes;
    });
  expect(peakOf(true)).toBeLessThan(0.75 * peakOf(false));
  model.dispose();
});

// Linear attention normalizes what the first tokens read, which may be next to nothing: 16 bits do not hold it.
const steady = familyNames.filter((family) => tinyConfig(family).features.linearAttention === null);

describe.each(steady)("%s in bfloat16", (family) => {
  test("computes near what float32 computes, forward and backward", () => {
    const exact = tinyModel(tinyConfig(family));
    const model = new CausalLm(tinyConfig(family), { dtype: "bfloat16" });
    model.loadStateDict(exact.stateDict());
    exact.loadStateDict(new Map([...model.stateDict()].map(([path, value]) => [path, value.to("float32")])));
    tensorScope(() => {
      const run = (lm: CausalLm) => {
        const hidden_SD = lm.forward(someIds(9), packedLayout([5, 4]));
        const { logprobs_S } = tokenLogprobs(hidden_SD, lm.head, someIds(9));
        return { hidden_SD, logprobs_S, grads: gradients([logprobs_S.mean()], lm.parameters()) };
      };
      const got = run(model);
      const expected = run(exact);
      expect(got.hidden_SD.dtype).toBe("bfloat16");
      expect(got.logprobs_S.dtype).toBe("float32");
      expect(maxDifference(got.logprobs_S, expected.logprobs_S)).toBeLessThan(0.2);
      got.grads.forEach((grad, i) => {
        expect(grad!.dtype).toBe("bfloat16");
        const error = grad!.to("float32").sub(expected.grads[i]!).norm().item();
        expect(error).toBeLessThan(0.15 * Math.max(expected.grads[i]!.norm().item(), 0.05));
      });
    });
    exact.dispose();
    model.dispose();
  });
});

test("training works after generation, whose rotary table was made in inference mode", () => {
  const model = tinyModel(tinyConfig("llama"));
  greedy(model, [[1, 2, 3]], { numTokens: 4 });
  for (const recompute of [false, true]) {
    tensorScope(() =>
      model
        .forward(someIds(6), packedLayout([6]), { recompute })
        .sum()
        .backward(),
    );
    expect(model.embedding.grad).not.toBeNull();
    model.zeroGrad();
  }
  model.dispose();
});

test("ids that do not fill the layout are refused with both sizes", () => {
  const model = tinyModel(tinyConfig("llama"));
  tensorScope(() => {
    expect(() => model.forward(someIds(4), packedLayout([3]))).toThrow("ids has shape [4] but the layout has 3 tokens");
    expect(() => model.forward(someIds(4).view(2, 2), packedLayout([4]))).toThrow("ids has shape [2, 2]");
  });
  model.dispose();
});

describe("fresh weights", () => {
  test("matrices are normal with the config's range, norms one and biases zero, also the second time", () => {
    const config = tinyConfig("llama", { width: 64, mlpWidth: 96, initializerRange: 0.05 });
    const model = new CausalLm(config).initialize(new Generator(1));
    noGrad(() => model.parameters().forEach((parameter) => void parameter.fill_(7)));
    model.initialize(new Generator(1));
    tensorScope(() => {
      for (const [path, parameter] of model.namedParameters()) {
        const [mean, std] = [parameter.mean().item(), parameter.std().item()];
        if (parameter.shape.length === 2) {
          expect(std).toBeGreaterThan(0.045);
          expect(std).toBeLessThan(0.055);
        } else {
          expect([std, mean]).toEqual([0, path.endsWith("bias") ? 0 : 1]);
        }
      }
    });
    model.dispose();
  });

  test("one seed gives one model, in another type its rounding", () => {
    const [first, second] = [1, 1].map((seed) => new CausalLm(tinyConfig("qwen3")).initialize(new Generator(seed)));
    const half = new CausalLm(tinyConfig("qwen3"), { dtype: "bfloat16" }).initialize(new Generator(1));
    tensorScope(() => {
      const expected = first!.embedding.toArray();
      expect(second!.embedding.toArray()).toEqual(expected);
      expect(half.embedding.toArray()).toEqual(first!.embedding.to("bfloat16").toArray());
    });
    for (const model of [first!, second!, half]) model.dispose();
  });
});

describe("memory", () => {
  test("a disposed model leaves nothing", () => {
    const { liveBytes, liveTensors } = memoryStats();
    for (const family of familyNames) {
      const model = tinyModel(tinyConfig(family));
      tensorScope(() =>
        model
          .forward(someIds(4), packedLayout([4]))
          .sum()
          .backward(),
      );
      model.zeroGrad();
      model.dispose();
    }
    expect(memoryStats()).toMatchObject({ liveBytes, liveTensors });
  });

  test.each([false, true])("stays flat over 100 training steps, recomputed %s, and the loss falls", (recompute) => {
    const model = createPreset("nano", 32, 1);
    const optimizer = new AdamW(model.namedParameters(), { lr: 1e-3 });
    const losses: number[] = [];
    const live = new Set<number>();
    const generator = new Generator(2);
    for (let step = 0; step < 100; step++) {
      const loss = tensorScope(() => {
        const ids_S = countingRows(generator);
        const hidden_SD = model.forward(ids_S, paddedLayout(4, 6), { recompute });
        const weights_S = tensor(new Float32Array(24).fill(1 / 24), [24]);
        const { loss: made } = weightedCrossEntropy(hidden_SD, model.head, ids_S.add(1), weights_S);
        made.backward();
        optimizer.step();
        // Gradients made anew may lie in larger blocks, which count in full.
        model.zeroGrad();
        return made.item();
      });
      losses.push(loss);
      if (step >= 1) live.add(memoryStats().liveBytes);
    }
    expect(live.size).toBe(1);
    expect(losses.at(-1)!).toBeLessThan(0.5 * losses[0]!);
    model.dispose();
  });

  /** Four rows of six tokens that count up from a random first one. */
  function countingRows(generator: Generator): Tensor {
    const first_41 = randint(0, 16, [4, 1], { generator });
    return first_41.add(tensor([[0, 1, 2, 3, 4, 5]], { dtype: "int64" })).flatten();
  }
});
