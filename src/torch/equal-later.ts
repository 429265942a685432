/** A comparison whose answer is asked for later: on a GPU, what is queued after it goes on meanwhile. */
import { pinned } from "./create.ts";
import { CudaEvent } from "./cuda.ts";
import { op } from "./operator.ts";
import type { Tensor } from "./tensor.ts";

/** Whether two tensors of one shape are equal in every element; NaN equals nothing. To be asked once, in the scope of the call. */
export function equalLater(one: Tensor, other: Tensor): () => boolean {
  if (!one.device.startsWith("cuda")) {
    const isEqual = ops.equal(one, other);
    return () => isEqual;
  }
  const answer = pinned([], "float32").copy_(one.eq(other).all(), { nonBlocking: true });
  const done = new CudaEvent().record();
  return () => {
    done.synchronize();
    done.dispose();
    return answer.item() === 1;
  };
}

const ops = { equal: op("aten::equal") } as const;
