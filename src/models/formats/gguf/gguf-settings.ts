/**
 * Reads single metadata values of a GGUF file, with the type the reader expects or an error that names the key.
 */

import { RerollError } from "../../../errors/reroll-error.ts";
import type { GgufHeader } from "./gguf-header.ts";
import type { GgufArray, GgufValue } from "./gguf-value.ts";

/** Typed access to the metadata of one file. */
export class GgufSettings {
  readonly fileName: string;
  readonly #metadata: ReadonlyMap<string, GgufValue>;

  constructor(header: GgufHeader, fileName: string) {
    this.fileName = fileName;
    this.#metadata = header.metadata;
  }

  /** A number above zero that must be there. */
  positive(key: string): number {
    return this.#require(key, this.optionalPositive(key));
  }

  /** A positive integer that must be there. */
  count(key: string): number {
    const value = this.#require(key, this.optionalCount(key));
    if (value === 0) throw this.#wrongType(key, "above zero");
    return value;
  }

  /** A text that must be there. */
  text(key: string): string {
    return this.#require(key, this.optionalText(key));
  }

  /**
   * A number. One stored in single precision comes back as the shortest decimal that stands for it: 1e-6, not 9.999999974752427e-7,
   * which is what the model's author wrote.
   */
  optionalNumber(key: string): number | undefined {
    const value = this.#metadata.get(key);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isFinite(value)) throw this.#wrongType(key, "a number");
    return shortestFloat32(value);
  }

  /** A number above zero. */
  optionalPositive(key: string): number | undefined {
    const value = this.optionalNumber(key);
    if (value !== undefined && value <= 0) throw this.#wrongType(key, "above zero");
    return value;
  }

  /** A non-negative integer. An array, which llama.cpp allows for values per layer, must have the same one for all. */
  optionalCount(key: string): number | undefined {
    const value = this.#metadata.get(key);
    if (value === undefined) return undefined;
    const single = typeof value === "object" ? this.#uniform(key, value) : value;
    if (typeof single !== "number" || !Number.isSafeInteger(single) || single < 0)
      throw this.#wrongType(key, "a count");
    // A zero that was stored as the float -0 becomes 0.
    return single === 0 ? 0 : single;
  }

  optionalText(key: string): string | undefined {
    const value = this.#metadata.get(key);
    if (value === undefined || typeof value === "string") return value;
    throw this.#wrongType(key, "a text");
  }

  /** A list of texts that must be there. */
  texts(key: string): readonly string[] {
    const value = this.#require(key, this.#metadata.get(key));
    if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value;
    throw this.#wrongType(key, "a list of texts");
  }

  /** A list of numbers. */
  numbers(key: string): ArrayLike<number> | undefined {
    const value = this.#metadata.get(key);
    if (value === undefined) return undefined;
    if (!ArrayBuffer.isView(value) || value instanceof BigInt64Array || value instanceof BigUint64Array)
      throw this.#wrongType(key, "a list of numbers");
    return value as Exclude<GgufArray, readonly unknown[] | BigInt64Array | BigUint64Array>;
  }

  optionalFlag(key: string): boolean | undefined {
    const value = this.#metadata.get(key);
    if (value === undefined || typeof value === "boolean") return value;
    throw this.#wrongType(key, "true or false");
  }

  /** The share of each head that an architecture rotates; 1 where the file does not say. */
  rotaryShare(architecture: string): number {
    const width = this.count(`${architecture}.embedding_length`) / this.count(`${architecture}.attention.head_count`);
    const headSize = this.optionalCount(`${architecture}.attention.key_length`) ?? width;
    return (this.optionalCount(`${architecture}.rope.dimension_count`) ?? headSize) / headSize;
  }

  /** The length of an array, or undefined if the key is missing. */
  arrayLength(key: string): number | undefined {
    const value = this.#metadata.get(key);
    if (value === undefined) return undefined;
    if (typeof value !== "object") throw this.#wrongType(key, "an array");
    return value.length;
  }

  /** The error for a file whose metadata makes no sense. */
  invalid(what: string): RerollError {
    return new RerollError(
      "GGUF_INVALID",
      `${this.fileName} does not describe a model: ${what}. Download it again, or convert the model again with a current llama.cpp.`,
      { fileName: this.fileName },
    );
  }

  #uniform(key: string, values: Extract<GgufValue, object>): unknown {
    const [first] = values;
    for (const value of values) {
      if (value !== first) {
        throw new RerollError(
          "GGUF_UNSUPPORTED",
          `${this.fileName} cannot be loaded: ${key} differs between layers. Supported: one value for all.`,
          { fileName: this.fileName, key },
        );
      }
    }
    return typeof first === "bigint" ? Number(first) : first;
  }

  #require<Value>(key: string, value: Value | undefined): Value {
    if (value === undefined) throw this.invalid(`it has no metadata key ${key}`);
    return value;
  }

  #wrongType(key: string, expected: string): RerollError {
    return this.invalid(`metadata key ${key} is not ${expected}`);
  }
}

function shortestFloat32(value: number): number {
  for (let digits = 1; digits <= 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(candidate) === value) return candidate;
  }
  return value;
}
