/**
 * AdamW over a small network whose parameters lie in one block of memory, and their gradients in another.
 *
 * Small networks spend their time on calls, not on arithmetic: clipping and Adam make as many calls for one tensor as for
 * each of the dozen of an actor and a critic. The network is used as before; its parameters have become views of the block.
 */
import { noGrad } from "../../torch/autograd.ts";
import { cat, zerosLike } from "../../torch/create.ts";
import { type Module, Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import { AdamW, type AdamWOptions } from "../../torch/optim/adamw.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/**
 * Owns the memory of the module's trainable parameters from here on: they must keep their type and place. Clear gradients with
 * `zeroGrad` of the optimizer, not of the module: the module's drops them, and with them the tie to the block.
 */
export class FlatAdamW extends AdamW {
  readonly #gradient: Tensor;

  /** @param name the block's name in a saved state */
  constructor(name: string, module: Module, options: AdamWOptions) {
    const { all, gradient } = flatten(module.trainableParameters());
    super(new Map([[name, all]]), options);
    this.#gradient = gradient;
  }

  /** Sets all gradients to 0, in place. */
  override zeroGrad(): void {
    noGrad(() => this.#gradient.zero_());
  }
}

/** Moves parameters into one block and ties their gradients to another, which backward adds to. */
function flatten(parameters: readonly Parameter[]): { readonly all: Parameter; readonly gradient: Tensor } {
  return noGrad(() =>
    tensorScope(() => {
      const all = new Parameter(cat(parameters.map((one) => one.detach().flatten())));
      const gradient = keep(zerosLike(all.detach()));
      all.grad = gradient;
      let start = 0;
      for (const parameter of parameters) {
        const { shape, numel } = parameter;
        const block = all.detach().narrow(0, start, numel);
        setData(parameter, block.view(...shape));
        parameter.grad = gradient.narrow(0, start, numel).view(...shape);
        start += numel;
      }
      return { all: keep(all), gradient };
    }),
  );
}

const setData = op("aten::set_data");
