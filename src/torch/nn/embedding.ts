/** A table of learned vectors. */
import { RerollError } from "../../errors/reroll-error.ts";
import { op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";
import { createParameter, type InitializeOptions, type Initializer, initialize } from "./initialize.ts";
import { Module, type Parameter } from "./module.ts";

/** Options of an Embedding. */
export interface EmbeddingOptions extends InitializeOptions {
  /** Default standard normal, as in PyTorch. */
  readonly initialWeight?: Initializer;
}

/** The vector of each id: ids of any shape to [..., width]. An id outside of the table is an error of the device. */
export class Embedding extends Module {
  readonly weight: Parameter;

  constructor(numEmbeddings: number, width: number, options: EmbeddingOptions) {
    super();
    const { initialWeight = initialize.normal(0, 1) } = options;
    this.weight = createParameter([numEmbeddings, width], initialWeight, options);
  }

  forward(ids: Tensor): Tensor {
    const { dtype } = ids;
    if (dtype !== "int64" && dtype !== "int32") {
      throw new RerollError(
        "INVALID_ARGUMENT",
        `Embedding got ids of type ${dtype}. Ids must be int64 or int32: convert them with ids.to("int64").`,
      );
    }
    return embedding(this.weight, ids);
  }
}

const embedding = op("aten::embedding");
