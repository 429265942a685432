/**
 * The activation of gated MLPs and the products around it: silu(gate) * up for [gate | up] side by side.
 *
 * What a backward pass needs is kept once: silu(gate) * up is made again on the way to the gradient of gate and up, where a kernel does that.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { applyFunction, isGradEnabled } from "./autograd.ts";
import { empty, emptyLike } from "./create.ts";
import { isExact } from "./exact.ts";
import { hasKernels } from "./kernels/cuda-kernel.ts";
import { fitsGated, gatedKernel } from "./kernels/gated-kernel.ts";
import { swigluBackwardKernel, swigluKernel } from "./kernels/swiglu-kernel.ts";
import { op } from "./operator.ts";
import { linear } from "./steady-products.ts";
import type { Tensor } from "./tensor.ts";

/**
 * silu(gate) * up for gateUp = [gate | up] along the last dimension. Keeps only its input for the backward pass, where
 * the plain composition would keep silu(gate) as well.
 */
export function swiglu(gateUp: Tensor): Tensor {
  if ((gateUp.shape.at(-1) ?? 1) % 2 !== 0) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `swiglu takes [gate | up], two halves of the last dimension: got shape [${gateUp.shape.join(", ")}]. Its last size must be even.`,
    );
  }
  return applyFunction(swigluFunction, [gateUp])[0]!;
}

const swigluFunction = {
  forward: ([gateUp]: readonly Tensor[]) => ({ outputs: [activated(gateUp!)], saved: [gateUp!] }),
  backward: ([grad]: readonly (Tensor | null)[], [gateUp]: readonly Tensor[]) => [activationGradient(grad!, gateUp!)],
};

function activated(gateUp: Tensor): Tensor {
  if (isPackable(gateUp)) return swigluKernel(gateUp);
  const [gate, up] = gateUp.chunk(2, -1);
  return gate!.silu().mul_(up!);
}

/** The gradient of [gate | up]. `again`, where given, gets silu(gate) * up once more. */
function activationGradient(grad: Tensor, gateUp: Tensor, again?: Tensor): Tensor {
  if (isPackable(gateUp)) return swigluBackwardKernel(grad.contiguous(), gateUp, again);
  again?.copy_(activated(gateUp));
  const [gate, up] = gateUp.chunk(2, -1);
  const gradient = emptyLike(gateUp);
  const [gradGate, gradUp] = gradient.chunk(2, -1);
  ops.siluBackward_(grad.mul(up!), gate!, gradGate!);
  ops.mulInto(gate!.silu(), grad, gradUp!);
  return gradient;
}

/**
 * swiglu(gateUp) weight', for weight [D, I]. Where the kernels run, silu(gate) * up is made again in the backward pass, on the way to the
 * gradient of [gate | up], and not kept: a third less memory for an MLP. Where nobody reads the result, only its gradient counts, and it is not
 * computed there.
 */
export function swigluLinear(gateUp: Tensor, weight: Tensor, isRead = true): Tensor {
  if (!isPackable(gateUp)) return linear(swiglu(gateUp), weight);
  const isTrained = weight.requiresGrad;
  return applyFunction(
    {
      forward: ([gateUp, weight]) => {
        const result = isRead ? linear(activated(gateUp!), weight!) : nobodys(gateUp!, weight!);
        return { outputs: [result], saved: [gateUp!, weight!] };
      },
      backward: ([grad], [gateUp, weight]) => gradientsBefore(grad!, gateUp!, weight!, isTrained),
    },
    [gateUp, weight],
  )[0]!;
}

/** Whether the product of gate and up and the activation are one kernel here: see swigluMlp and swigluProduct. */
export function joinsActivation(x_SD: Tensor, gateUpWeight: Tensor): boolean {
  return !isExact() && fitsGated(x_SD, gateUpWeight);
}

/** swiglu(x w'), for w with the rows of gate above those of up, where nothing is kept for a backward pass. */
export function swigluProduct(x_SD: Tensor, gateUpWeight: Tensor): Tensor {
  return gatedProduct(x_SD, gateUpWeight, false).inner_SI;
}

/**
 * swigluLinear(x w', weight), for w with the rows of gate above those of up: what stands between the two products is made by the first. Where nobody
 * reads the result, gate and up are libtorch's product: the same but for the rounding of sums that were added up in another order.
 */
export function swigluMlp(x_SD: Tensor, gateUpWeight: Tensor, weight: Tensor, isRead = true): Tensor {
  const isKept = isGradEnabled();
  const [needsX, trainsGateUp, isTrained] = [x_SD, gateUpWeight, weight].map((one) => one.requiresGrad);
  return applyFunction(
    {
      forward: ([x, gateUpWeight, weight]) => {
        const made = isRead ? gatedProduct(x!, gateUpWeight!, isKept) : null;
        const gateUp = made === null ? linear(x!, gateUpWeight!) : made.gateUp_SN;
        const result = made === null ? nobodys(x!, weight!) : linear(made.inner_SI, weight!);
        return { outputs: [result], saved: gateUp === null ? [] : [x!, gateUpWeight!, gateUp, weight!] };
      },
      backward: ([grad], saved) => {
        const [x, gateUpWeight, gateUp, weight] = saved as [Tensor, Tensor, Tensor, Tensor];
        const [gradGateUp, gradWeight] = gradientsBefore(grad!, gateUp, weight, isTrained!);
        return [needsX ? gradGateUp.mm(gateUpWeight) : null, trainsGateUp ? gradGateUp.t().mm(x) : null, gradWeight];
      },
    },
    [x_SD, gateUpWeight, weight],
  )[0]!;
}

function gatedProduct(x_SD: Tensor, gateUpWeight: Tensor, isKept: boolean): ReturnType<typeof gatedKernel> {
  if (fitsGated(x_SD, gateUpWeight)) return gatedKernel(x_SD, gateUpWeight, isKept);
  const gateUp_SN = linear(x_SD, gateUpWeight);
  return { inner_SI: activated(gateUp_SN), gateUp_SN };
}

/** The gradients of [gate | up] and of the weight behind the activation, from that of their result. */
function gradientsBefore(
  grad: Tensor,
  gateUp: Tensor,
  weight: Tensor,
  isTrained: boolean,
): [gradGateUp: Tensor, gradWeight: Tensor | null] {
  const gradInner = grad.mm(weight);
  if (!isTrained) return [activationGradient(gradInner, gateUp), null];
  const inner = emptyLike(gradInner);
  const gradGateUp = activationGradient(gradInner, gateUp, inner);
  gradInner.dispose();
  const gradWeight = grad.t().mm(inner);
  inner.dispose();
  return [gradGateUp, gradWeight];
}

/** In place of x w' where nobody reads that: of its shape. */
function nobodys(x_SI: Tensor, weight: Tensor): Tensor {
  return empty([x_SI.size(0), weight.size(0)], { dtype: x_SI.dtype, device: x_SI.device });
}

/** gelu(gate) * up for gateUp = [gate | up], with GELU in its tanh form. */
export function geglu(gateUp: Tensor): Tensor {
  const [gate, up] = gateUp.chunk(2, -1);
  return ops.gelu(gate!, "tanh").mul(up!);
}

/** Whether rows of [gate | up] can be read eight values at a time. */
function isPackable(x: Tensor): boolean {
  return hasKernels(x) && x.shape.length === 2 && x.size(1) % 16 === 0 && x.isContiguous;
}

const ops = {
  gelu: op("aten::gelu"),
  mulInto: op("aten::mul.out"),
  siluBackward_: op("aten::silu_backward.grad_input"),
} as const;
