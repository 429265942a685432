/** Time for memory: activations are computed again in the backward pass instead of kept (gradient checkpointing). */
import { applyFunction, enableGrad, gradients } from "./autograd.ts";
import { tensorScope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";

/**
 * `run(x)`, keeping nothing but x: what `run` needs for its gradient is computed again in the backward pass.
 *
 * `parameters` are the trainable tensors that `run` uses; gradients reach x and these. `run` must give the same result
 * when it is called again.
 */
export function recompute(run: (x: Tensor) => Tensor, x: Tensor, parameters: readonly Tensor[]): Tensor {
  const [out] = applyFunction(
    {
      forward: () => ({ outputs: [tensorScope(() => run(x))], saved: [x] }),
      backward: ([gradOut], [input]) =>
        tensorScope(() => {
          const start = input!.detach();
          start.requiresGrad = true;
          const again = enableGrad(() => repeating(() => run(start)));
          return gradients([again], [start, ...parameters], { gradOutputs: [gradOut!] });
        }),
    },
    [x, ...parameters],
  );
  return out!;
}

let isAgain = false;

/** Whether a run is being made again, for the sake of gradients. Nobody reads its result: what only that needs can be left out. */
export function isRepeating(): boolean {
  return isAgain;
}

function repeating<Result>(body: () => Result): Result {
  const before = isAgain;
  isAgain = true;
  try {
    return body();
  } finally {
    isAgain = before;
  }
}
