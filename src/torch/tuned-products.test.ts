import { expect, test } from "vitest";
import { noGrad } from "./autograd.ts";
import { randn } from "./create.ts";
import { isCudaAvailable } from "./cuda.ts";
import { op } from "./operator.ts";
import { tensorScope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";
import { tuneProducts } from "./tuned-products.ts";

const linear = op("aten::linear");

test("without a GPU products are what they were", () => {
  tensorScope(() => {
    const [x, weight] = [randn([4, 8]), randn([3, 8])];
    const before = linear(x, weight).toArray();
    tuneProducts();
    expect(linear(x, weight).toArray()).toEqual(before);
  });
});

// Where there is one, bench/gpu/tuned-products.ts looks at every shape of two models.
test.skipIf(!isCudaAvailable())("a large product and its gradients are those of float32, up to rounding", () => {
  tensorScope(() => {
    tuneProducts();
    const place = { device: "cuda", dtype: "bfloat16" } as const;
    const [x, weight, bias, grad] = [[4096, 896], [4096, 896], [4096], [4096, 4096]].map((shape) =>
      randn(shape, place),
    );
    const wide = (of: Tensor) => of.to("float32");
    const errorOf = (got: Tensor, expected: Tensor) => wide(got).sub(expected).norm().item() / expected.norm().item();
    noGrad(() => {
      const product = wide(x!).mm(wide(weight!).t());
      expect(errorOf(linear(x!, weight!), product)).toBeLessThan(2 ** -8);
      expect(errorOf(linear(x!, weight!, bias), product.add(wide(bias!)))).toBeLessThan(2 ** -8);
      expect(errorOf(grad!.mm(weight!), wide(grad!).mm(wide(weight!)))).toBeLessThan(2 ** -8);
      expect(errorOf(grad!.t().mm(x!), wide(grad!).t().mm(wide(x!)))).toBeLessThan(2 ** -8);
    });
  });
});
