/**
 * The trainable parameters of a small network in one block of memory, and their gradients in another.
 *
 * Small networks spend their time on calls, not on numbers: clipping and Adam make as many of them for one tensor as for each
 * of the dozen of an actor and a critic. The network is used as before; its parameters have become views of the block.
 */
import { noGrad } from "../../torch/autograd.ts";
import { cat, zerosLike } from "../../torch/create.ts";
import { type Module, Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import { keep, tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/**
 * All trainable parameters of a module as one, with gradients that backward adds to. Use `zeroGrad` here, not the module's: that
 * one drops the gradients, and with them the tie. Parameters must keep their type and place.
 */
export class FlatParameters {
  /** For an optimizer. Its gradient is always there. */
  readonly all: Parameter;
  readonly #gradient: Tensor;

  constructor(module: Module) {
    const parameters = module.trainableParameters();
    this.all = noGrad(() => tensorScope(() => new Parameter(cat(parameters.map((one) => one.detach().flatten())))));
    this.#gradient = keep(zerosLike(this.all.detach()));
    this.all.grad = this.#gradient;
    noGrad(() =>
      tensorScope(() => {
        let start = 0;
        for (const parameter of parameters) {
          const { shape, numel } = parameter;
          setData(
            parameter,
            this.all
              .detach()
              .narrow(0, start, numel)
              .view(...shape),
          );
          parameter.grad = this.#gradient.narrow(0, start, numel).view(...shape);
          start += numel;
        }
      }),
    );
  }

  /** Sets all gradients to 0. */
  zeroGrad(): void {
    noGrad(() => this.#gradient.zero_());
  }
}

const setData = op("aten::set_data");
