/** A GGUF file as the model it is on Hugging Face: its config.json, and its weights under their names there. */
import { basename } from "node:path";
import { RerollError } from "../../../errors/reroll-error.ts";
import { countElements } from "../../formats/count-elements.ts";
import { type GgufFile, openGguf } from "../../formats/gguf/gguf-file.ts";
import type { GgufTensor } from "../../formats/gguf/gguf-header.ts";
import { showName } from "../../formats/show-name.ts";
import { ggufFamily, type HuggingFaceConfig, huggingFaceConfigOf } from "./gguf-config.ts";
import { ggufTensorRole, ropeFactorsName } from "./gguf-names.ts";

/** A weight under its Hugging Face name. `read` loads its values, anew at each call. */
interface HuggingFaceTensor {
  readonly name: string;
  readonly shape: readonly number[];
  read(): Float32Array;
}

/** A model in a GGUF file. */
export class GgufModel {
  readonly config: HuggingFaceConfig;
  readonly #file: GgufFile;

  constructor(file: GgufFile) {
    const ropeFactors = file.header.tensors.has(ropeFactorsName) ? file.readTensor(ropeFactorsName) : null;
    this.config = huggingFaceConfigOf(file.header, ropeFactors, basename(file.path));
    this.#file = file;
  }

  /** Every weight of the model, in the order of the file. Experts come one by one. */
  *tensors(): Iterable<HuggingFaceTensor> {
    const { header, path } = this.#file;
    const { family } = ggufFamily(header, basename(path));
    for (const tensor of header.tensors.values()) {
      const role = ggufTensorRole(tensor.name, family);
      switch (role.kind) {
        case "weight": {
          const { name, form } = role;
          const problem = form?.problemWith(tensor.shape, this.config) ?? null;
          if (problem !== null) throw this.#unexpectedTensor(tensor, problem);
          const read = () => this.#file.readTensor(tensor.name);
          yield { name, shape: tensor.shape, read: () => form?.restore(read(), this.config) ?? read() };
          break;
        }
        case "experts":
          yield* this.#expertTensors(tensor, role.nameOf);
          break;
        case "rope-factors":
          break;
        case "unknown":
          throw this.#unexpectedTensor(tensor, `${family.gguf.architecture} models have no such tensor`);
      }
    }
  }

  *#expertTensors(tensor: GgufTensor, nameOf: (expert: number) => string): Iterable<HuggingFaceTensor> {
    const [numExperts, ...shape] = tensor.shape;
    const size = countElements(shape);
    const expected = this.config.num_experts;
    if (numExperts === undefined || numExperts !== expected || shape.length !== 2 || size === 0) {
      throw this.#unexpectedTensor(tensor, `${expected} experts need that many matrices`);
    }
    for (let expert = 0; expert < numExperts; expert++) {
      yield { name: nameOf(expert), shape, read: () => this.#file.readValues(tensor.name, expert * size, size) };
    }
  }

  #unexpectedTensor({ name, shape }: GgufTensor, why: string): RerollError {
    const { path } = this.#file;
    return new RerollError(
      "GGUF_UNSUPPORTED",
      `${basename(path)} has tensor ${showName(name)} of shape [${shape}], but ${why}. ` +
        "Use the safetensors release of the model.",
      { path, name },
    );
  }
}

/** Opens the model in a .gguf file. */
export function openGgufModel(path: string): GgufModel {
  return new GgufModel(openGguf(path));
}
