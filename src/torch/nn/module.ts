/**
 * Modules: objects that own parameters.
 *
 * A module's fields are its structure: a Parameter is its own, a Module or a list of Modules is a child, and the path of
 * field names ("layers.0.attention.query.weight") is the parameter's name. There is nothing to register.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../autograd.ts";
import { native } from "../binding.ts";
import type { Split } from "../distributed/split.ts";
import type { Device, DType } from "../dtype.ts";
import { op } from "../operator.ts";
import { keep } from "../scope.ts";
import { Tensor } from "../tensor.ts";

/** A tensor that is trained. Belongs to no scope; `isTrainable` false freezes it. */
export class Parameter extends Tensor {
  /** Which part of a larger parameter this is, where ranks have a part each; null for a whole one. */
  shard: Split | null = null;
  /** Whether the first and the last of several stages have it: an embedding that is the output matrix too. */
  isAtBothEnds = false;

  constructor(value: Tensor, { isTrainable = true } = {}) {
    // A handle of our own: no other Tensor object, whose collection would free it, may hold the same one.
    super(native.alias(value.handle));
    keep(this);
    if (isTrainable) this.requiresGrad = true;
  }
}

/** Whether a parameter has values here: of one that another stage has, there is the shape alone. */
export function isHere({ device }: Parameter): boolean {
  return device !== "meta";
}

/** Moves the values of a parameter to a device and type, keeping its identity. Its gradient is forgotten. */
export function moveParameter(
  parameter: Parameter,
  { device, dtype }: { readonly device?: Device; readonly dtype?: DType },
): void {
  const moved = noGrad(() => {
    const converted = dtype === undefined ? parameter.detach() : parameter.detach().to(dtype);
    return device === undefined ? converted : converted.toDevice(device);
  });
  setData(parameter, moved);
  parameter.grad = null;
}

/** Base of everything with parameters. */
export abstract class Module {
  /** Every parameter by its path, in the order of the fields. A shared parameter is listed once, at its first path. */
  namedParameters(): Map<string, Parameter> {
    const found = new Map<string, Parameter>();
    const seen = new Set<Parameter>();
    visit(this, "", (path, parameter) => {
      if (seen.has(parameter)) return;
      seen.add(parameter);
      found.set(path, parameter);
    });
    return found;
  }

  parameters(): Parameter[] {
    return [...this.namedParameters().values()];
  }

  trainableParameters(): Parameter[] {
    return this.parameters().filter((parameter) => parameter.requiresGrad);
  }

  /** The number of values in all parameters. */
  numParameters(): number {
    return this.parameters().reduce((sum, parameter) => sum + parameter.numel, 0);
  }

  /** The values by path, outside the graph and sharing memory with the parameters. */
  stateDict(): Map<string, Tensor> {
    return new Map([...this.namedParameters()].map(([path, parameter]) => [path, parameter.detach()]));
  }

  /** Copies values into the parameters. Every path must be there with the right shape, and none besides. */
  loadStateDict(values: ReadonlyMap<string, Tensor>): void {
    const parameters = this.namedParameters();
    const missing = [...parameters.keys()].filter((path) => !values.has(path));
    const unknown = [...values.keys()].filter((path) => !parameters.has(path));
    if (missing.length > 0 || unknown.length > 0) {
      throw new RerollError(
        "STATE_MISMATCH",
        `The state does not fit ${this.constructor.name}: missing ${list(missing)}; not known ${list(unknown)}.`,
        { missing, unknown },
      );
    }
    noGrad(() => {
      for (const [path, value] of values) {
        const parameter = parameters.get(path);
        if (parameter === undefined) continue;
        expectSameShape(path, value, parameter);
        parameter.copy_(value);
      }
    });
  }

  /** Moves the parameters to a device and type, keeping their identity: optimizers and graphs made later see the new place. */
  to(place: { readonly device?: Device; readonly dtype?: DType }): this {
    for (const parameter of this.parameters()) moveParameter(parameter, place);
    return this;
  }

  /** Lets gradients reach the parameters, or not. */
  setTrainable(isTrainable: boolean): this {
    for (const parameter of this.parameters()) parameter.requiresGrad = isTrainable;
    return this;
  }

  /** Drops the gradients; the next backward makes new ones. */
  zeroGrad(): void {
    for (const parameter of this.parameters()) parameter.grad = null;
  }

  /** Frees the parameters. The module cannot be used afterwards. */
  dispose(): void {
    for (const parameter of this.parameters()) parameter.dispose();
  }
}

const setData = op("aten::set_data");

function visit(value: unknown, path: string, report: (path: string, parameter: Parameter) => void): void {
  if (value instanceof Parameter) report(path, value);
  else if (value instanceof Module || Array.isArray(value)) {
    for (const [name, child] of Object.entries(value)) visit(child, path === "" ? name : `${path}.${name}`, report);
  }
}

function expectSameShape(path: string, value: Tensor, parameter: Parameter): void {
  const got = value.shape;
  const expected = parameter.shape;
  if (got.length === expected.length && got.every((size, i) => size === expected[i])) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `Parameter "${path}" has shape [${expected.join(", ")}], the value given has [${got.join(", ")}].`,
  );
}

function list(names: readonly string[]): string {
  if (names.length === 0) return "none";
  return `${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${names.length - 8} more` : ""}`;
}
