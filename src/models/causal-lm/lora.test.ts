import { describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { gradients, noGrad } from "../../torch/autograd.ts";
import { randint, randn, tensor } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { type Family, familyNames } from "./families/table.ts";
import { addLora, type LoraOptions, loraAdapters, mergeLora, moduleName, removeLora, withoutLora } from "./lora.ts";
import { LoraAdapter, Projection } from "./projection.ts";
import { packedLayout } from "./token-layout.ts";

const parts = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

function options(changes: Partial<LoraOptions> = {}): LoraOptions {
  return { rank: 3, alpha: 6, targets: "all-linear", generator: new Generator(1), ...changes };
}

/** A model whose adapters do something. */
function adapted(model: CausalLm, changes: Partial<LoraOptions> = {}): CausalLm {
  addLora(model, options(changes));
  const generator = new Generator(8);
  noGrad(() => {
    for (const { b } of loraAdapters(model).values())
      tensorScope(() => b.copy_(randn(b.shape, { generator }).mul(0.3)));
  });
  return model;
}

function hiddenOf(model: CausalLm, recompute = false): Tensor {
  const ids_S = randint(0, 29, [8], { generator: new Generator(3) });
  return model.forward(ids_S, packedLayout([5, 3]), { recompute });
}

function maxDifference(a: Tensor, b: Tensor): number {
  return a.to("float32").sub(b.to("float32")).abs().max().item();
}

test("a projection with one adapter, by hand", () => {
  tensorScope(() => {
    const projection = new Projection(
      2,
      [
        { name: "query", width: 1 },
        { name: "key", width: 2 },
      ],
      true,
      {},
    );
    const filled = (shape: number[], ...values: number[]) =>
      createParameter(shape, () => tensor(Float32Array.from(values), shape), {});
    noGrad(() => {
      projection.weight.writeFrom(Float32Array.of(1, 0, 0, 1, 1, 1));
      projection.bias!.writeFrom(Float32Array.of(10, 20, 30));
    });
    const x = tensor([[2, 3]]);
    expect(projection.forward(x).toArray()).toEqual([12, 23, 35]);
    // A = [1 -1], B = [1 2]', alpha 4, rank 1: 4 * (2 - 3) * [1 2] = [-4 -8].
    const adapter = new LoraAdapter("key", filled([1, 2], 1, -1), filled([2, 1], 1, 2), {
      alpha: 4,
      isRankStabilized: false,
    });
    projection.adapters = [adapter];
    expect(projection.forward(x).toArray()).toEqual([12, 19, 27]);
    expect(
      new LoraAdapter("key", filled([4, 1], 0, 0, 0, 0), filled([1, 4], 0, 0, 0, 0), {
        alpha: 4,
        isRankStabilized: true,
      }).scale,
    ).toBe(2);
  });
});

const linear = { shared: ["gate_proj", "up_proj", "down_proj", "shared_expert_gate"], attention: parts.slice(0, 4) };

/** The adapters of both layers, where they are not those of Llama. */
const ownTargets: Partial<Record<Family, readonly string[]>> = {
  qwen3_moe: [...parts.slice(0, 4), ...parts.slice(0, 4)],
  gpt_oss: [...parts.slice(0, 4), ...parts.slice(0, 4)],
  phi3: [0, 1].flatMap(() => ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]),
  glm4: [0, 1].flatMap(() => [...parts.slice(0, 4), "gate_up_proj", "down_proj"]),
  qwen3_next: ["in_proj_qkvz", "in_proj_ba", "out_proj", ...linear.shared, ...linear.attention, ...linear.shared],
  qwen3_5_text: ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj", ...parts.slice(4), ...parts],
};

describe.each(familyNames)("%s", (family) => {
  const targets = ownTargets[family] ?? [...parts, ...parts];

  test("new adapters change nothing and are all that is trained", () => {
    const model = tinyModel(tinyConfig(family));
    tensorScope(() => {
      const before = hiddenOf(model);
      addLora(model, options());
      expect(maxDifference(hiddenOf(model), before)).toBe(0);
      expect([...loraAdapters(model).keys()].map(moduleName)).toEqual(targets);
      const trained = [...model.namedParameters()].filter(([, parameter]) => parameter.requiresGrad);
      expect(trained).toHaveLength(2 * targets.length);
      expect(trained.every(([path]) => /\.adapters\.\d\.[ab]$/.test(path))).toBe(true);
    });
    model.dispose();
  });

  test("without its adapters the model is the base to the bit, and with them again the adapted one", () => {
    const model = tinyModel(tinyConfig(family));
    tensorScope(() => {
      const base = hiddenOf(model);
      adapted(model);
      const changed = hiddenOf(model);
      expect(maxDifference(changed, base)).toBeGreaterThan(0.01);
      expect(
        maxDifference(
          withoutLora(model, () => hiddenOf(model)),
          base,
        ),
      ).toBe(0);
      expect(maxDifference(hiddenOf(model), changed)).toBe(0);
    });
    model.dispose();
  });

  test("merged weights compute what the adapters did", () => {
    const model = adapted(tinyModel(tinyConfig(family)), { useRslora: true });
    tensorScope(() => {
      const changed = hiddenOf(model);
      mergeLora(model);
      expect(loraAdapters(model).size).toBe(0);
      expect(maxDifference(hiddenOf(model), changed)).toBeLessThan(1e-4);
    });
    model.dispose();
  });

  test("checkpointing trains the adapters under a frozen embedding, with equal gradients", () => {
    const model = adapted(tinyModel(tinyConfig(family)));
    tensorScope(() => {
      const direction = randn([8, 16], { generator: new Generator(4) });
      const trained = model.trainableParameters();
      const run = (recompute: boolean) =>
        gradients([hiddenOf(model, recompute)], trained, { gradOutputs: [direction] });
      const expected = run(false);
      run(true).forEach((grad, i) => {
        expect(expected[i]!.abs().max().item()).toBeGreaterThan(0);
        expect(maxDifference(grad!, expected[i]!)).toBeLessThan(1e-5);
      });
    });
    model.dispose();
  });
});

test("the gradient of an adapter is that of the merged weight, projected", () => {
  // d loss / dB = scale * G A' and d loss / dA = scale * B' G, G the gradient of the weight.
  const model = adapted(tinyModel(tinyConfig("qwen2")), { targets: ["k_proj"] });
  tensorScope(() => {
    const direction = randn([8, 16], { generator: new Generator(4) });
    const { a, b, scale } = loraAdapters(model).get("model.layers.1.self_attn.k_proj")!;
    const [gradA, gradB] = gradients([hiddenOf(model)], [a, b], { gradOutputs: [direction] });
    const [copyA, copyB] = [a.detach().clone(), b.detach().clone()];
    mergeLora(model);
    const { weight } = model.layers[1]!.projections[0]!;
    weight.requiresGrad = true;
    const [grad] = gradients([hiddenOf(model)], [weight], { gradOutputs: [direction] });
    const part = grad!.narrow(0, 24, 12);
    expect(maxDifference(gradB!, part.matmul(copyA.t()).mul(scale))).toBeLessThan(1e-4);
    expect(maxDifference(gradA!, copyB.t().matmul(part).mul(scale))).toBeLessThan(1e-4);
  });
  model.dispose();
});

describe("types", () => {
  test("adapters take the type of the model, or float32", () => {
    for (const dtype of ["bfloat16", "float32"] as const) {
      const model = adapted(
        tinyModel(tinyConfig("llama"), { dtype: "bfloat16" }),
        dtype === "float32" ? { dtype } : {},
      );
      tensorScope(() => {
        expect(new Set(model.trainableParameters().map((parameter) => parameter.dtype))).toEqual(new Set([dtype]));
        const hidden_SD = hiddenOf(model);
        expect(hidden_SD.dtype).toBe("bfloat16");
        hidden_SD.sum().backward();
        for (const { a, b } of loraAdapters(model).values())
          expect([a.grad!.dtype, b.grad!.dtype]).toEqual([dtype, dtype]);
      });
      model.dispose();
    }
  });

  test("a bfloat16 model with float32 adapters is near the float32 one, and so is its merge", () => {
    const exact = adapted(tinyModel(tinyConfig("llama")));
    const model = adapted(tinyModel(tinyConfig("llama"), { dtype: "bfloat16" }), { dtype: "float32" });
    tensorScope(() => {
      const expected = hiddenOf(exact);
      expect(maxDifference(hiddenOf(model), expected)).toBeLessThan(0.15);
      mergeLora(model);
      expect(maxDifference(hiddenOf(model), expected)).toBeLessThan(0.15);
    });
    exact.dispose();
    model.dispose();
  });
});

test("A starts uniform within 1 / sqrt(width) and B at zero, by the seed", () => {
  const models = [1, 1, 2].map((seed) => {
    const model = tinyModel(tinyConfig("llama", { width: 64 }));
    addLora(model, options({ rank: 16, generator: new Generator(seed) }));
    return model;
  });
  tensorScope(() => {
    const [first, same, other] = models.map((model) => loraAdapters(model).get("model.layers.0.self_attn.q_proj")!);
    const values = first!.a.toArray();
    expect(Math.max(...values.map(Math.abs))).toBeLessThanOrEqual(1 / 8);
    expect(first!.a.std().item()).toBeCloseTo(1 / 8 / Math.sqrt(3), 2);
    expect(first!.b.abs().max().item()).toBe(0);
    expect(same!.a.toArray()).toEqual(values);
    expect(other!.a.toArray()).not.toEqual(values);
  });
  for (const model of models) model.dispose();
});

test("a target with a longer name adapts fewer layers", () => {
  const model = tinyModel(tinyConfig("llama"));
  addLora(model, options({ targets: ["layers.1.self_attn.v_proj", "down_proj"] }));
  expect([...loraAdapters(model).keys()]).toEqual([
    "model.layers.0.mlp.down_proj",
    "model.layers.1.self_attn.v_proj",
    "model.layers.1.mlp.down_proj",
  ]);
  model.dispose();
});

describe("wrong use", () => {
  const model = tinyModel(tinyConfig("llama"));

  test.each<[Partial<LoraOptions>, string]>([
    [{ rank: 0 }, "rank must be an integer of at least 1: got 0"],
    [{ rank: 1.5 }, "rank must be an integer of at least 1: got 1.5"],
    [{ alpha: 0 }, "alpha must be above 0: got 0"],
    [{ alpha: Number.NaN }, "alpha must be above 0: got NaN"],
    [{ targets: [] }, "targets is empty. Allowed: q_proj, k_proj"],
    [{ targets: ["q_prj"] }, 'targets has "q_prj", which this model has not. Allowed: q_proj'],
    [{ targets: ["q_prj"] }, 'Did you mean "q_proj"?'],
  ])("addLora with %j says what is allowed", (changes, message) => {
    expect(() => addLora(model, options(changes))).toThrow(message);
    expect(model.trainableParameters()).toHaveLength(model.parameters().length);
  });

  test("the experts of a mixture are no target", () => {
    const mixture = tinyModel(tinyConfig("qwen3_moe"));
    expect(() => addLora(mixture, options({ targets: ["gate_proj"] }))).toThrow(
      "Allowed: q_proj, k_proj, v_proj, o_proj;",
    );
    mixture.dispose();
  });

  test("a model without adapters has no reference policy and nothing to merge", () => {
    expect(() => withoutLora(model, () => 1)).toThrow("withoutLora got a model without LoRA adapters");
    expect(() => mergeLora(model)).toThrow("mergeLora got a model without LoRA adapters");
  });

  test("adapters are not added twice", () => {
    const twice = adapted(tinyModel(tinyConfig("llama")));
    expect(() => addLora(twice, options())).toThrow("has LoRA adapters already");
    twice.dispose();
  });

  test("an asynchronous body is refused, and the adapters are back after an error", () => {
    const changed = adapted(tinyModel(tinyConfig("llama")));
    expect(() => withoutLora(changed, () => Promise.resolve())).toThrow("returns a promise");
    expect(loraAdapters(changed).size).toBe(14);
    changed.dispose();
  });
});

test("removing adapters gives the base back and frees their memory", () => {
  const model = tinyModel(tinyConfig("qwen2"));
  tensorScope(() => {
    const base = hiddenOf(model);
    const { liveBytes } = memoryStats();
    adapted(model);
    removeLora(model);
    expect(memoryStats().liveBytes).toBe(liveBytes);
    expect(maxDifference(hiddenOf(model), base)).toBe(0);
    expect(model.trainableParameters()).toEqual([]);
    expect(model.setTrainable(true).trainableParameters()).toHaveLength(model.parameters().length);
  });
  model.dispose();
});

test("training moves the adapters and leaves the base as it is", () => {
  const model = tinyModel(tinyConfig("qwen3"));
  tensorScope(() => {
    const base = hiddenOf(model);
    addLora(model, options());
    const trainable = new Map([...model.namedParameters()].filter(([, parameter]) => parameter.requiresGrad));
    const optimizer = new AdamW(trainable, { lr: 0.01 });
    const target = randn([8, 16], { generator: new Generator(6) });
    const losses = Array.from({ length: 30 }, () =>
      tensorScope(() => {
        const loss = hiddenOf(model).sub(target).square().mean();
        loss.backward();
        optimizer.step();
        model.zeroGrad();
        return loss.item();
      }),
    );
    expect(losses.at(-1)!).toBeLessThan(0.7 * losses[0]!);
    expect(
      maxDifference(
        withoutLora(model, () => hiddenOf(model)),
        base,
      ),
    ).toBe(0);
  });
  model.dispose();
});
