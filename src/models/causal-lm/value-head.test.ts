import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { noGrad } from "../../torch/autograd.ts";
import { randn, tensor } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { loadValueHead, saveValueHead, ValueHead } from "./value-head.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-value-"));
afterAll(() => rmSync(root, { recursive: true }));

test("the value is hidden W' + b, with its gradients", () => {
  const head = new ValueHead(3);
  tensorScope(() => {
    noGrad(() => {
      head.weight.writeFrom(Float32Array.of(1, 2, -1));
      head.bias.writeFrom(Float32Array.of(0.5));
    });
    const hidden_SD = tensor([
      [1, 1, 1],
      [0, 2, 3],
    ]);
    hidden_SD.requiresGrad = true;
    const values_S = head.forward(hidden_SD);
    expect(values_S.shape).toEqual([2]);
    expect(values_S.toArray()).toEqual([2.5, 1.5]);
    values_S
      .mul(tensor([1, 10]))
      .sum()
      .backward();
    expect(head.weight.grad!.toArray()).toEqual([1, 21, 31]);
    expect(head.bias.grad!.toArray()).toEqual([11]);
    expect(hidden_SD.grad!.toArray()).toEqual([1, 2, -1, 10, 20, -10]);
  });
  head.dispose();
});

test("a new head says 0 for everything, or little where it is asked to", () => {
  const zero = new ValueHead(64);
  const small = new ValueHead(64, { initial: { std: 0.01, generator: new Generator(1) } });
  tensorScope(() => {
    const hidden_SD = randn([50, 64], { generator: new Generator(2) });
    expect(zero.forward(hidden_SD).abs().max().item()).toBe(0);
    // The sum of 64 products of standard normals with weights of 0.01.
    expect(small.forward(hidden_SD).std().item()).toBeCloseTo(0.08, 1);
    expect(small.weight.std().item()).toBeGreaterThan(0.007);
    expect(small.bias.item()).toBe(0);
  });
  zero.dispose();
  small.dispose();
});

test("a bfloat16 decoder gets float32 values, and gradients in its own type", () => {
  const head = new ValueHead(8, { initial: { std: 0.1, generator: new Generator(1) } });
  tensorScope(() => {
    const hidden_SD = randn([4, 8], { generator: new Generator(2), dtype: "bfloat16" });
    hidden_SD.requiresGrad = true;
    const values_S = head.forward(hidden_SD);
    expect(values_S.dtype).toBe("float32");
    values_S.sum().backward();
    expect(hidden_SD.grad!.dtype).toBe("bfloat16");
    expect(head.weight.grad!.dtype).toBe("float32");
  });
  head.dispose();
});

test("saved, loaded and saved again is the same to the bit", () => {
  const head = new ValueHead(8, { initial: { std: 0.1, generator: new Generator(1) } });
  const loaded = new ValueHead(8);
  saveValueHead(head, join(root, "a"));
  loadValueHead(loaded, join(root, "a"));
  saveValueHead(loaded, join(root, "b"));
  const [a, b] = ["a", "b"].map((name) => readFileSync(join(root, name, "value_head.safetensors")));
  expect(b!.equals(a!)).toBe(true);
  expect(loaded.weight.toArray()).toEqual(head.weight.toArray());
  head.dispose();
  loaded.dispose();
});

test("a head of another width is refused with both shapes", () => {
  const [head, wide] = [new ValueHead(8), new ValueHead(9)];
  saveValueHead(head, join(root, "narrow"));
  expect(() => loadValueHead(wide, join(root, "narrow"))).toThrow(
    '"weight" has shape [1, 9], the value given has [1, 8]',
  );
  expect(() => loadValueHead(head, join(root, "nowhere"))).toThrow("does not exist");
  head.dispose();
  wide.dispose();
});
