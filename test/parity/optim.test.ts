/** Optimizers and clipping equal PyTorch over 20 steps. Fixtures: fixtures/nn/README.md. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { tensor } from "../../src/torch/create.ts";
import { isCudaAvailable } from "../../src/torch/cuda.ts";
import type { Device, DType } from "../../src/torch/dtype.ts";
import { Parameter } from "../../src/torch/nn/module.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import type { AdamWSettings } from "../../src/torch/optim/adamw-update.ts";
import { clipGradNorm } from "../../src/torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../../src/torch/optim/optimizer.ts";
import type { NamedParameters, ParameterGroup } from "../../src/torch/optim/parameter-group.ts";
import { SGD } from "../../src/torch/optim/sgd.ts";

/** Largest difference allowed, relative to the largest value of the tensor. Float32 has 1.2e-7 per rounding. */
const tolerance = 1e-6;

type Values = readonly number[];
type Trajectory = Readonly<Record<string, readonly Values[]>>;

interface Dump {
  readonly shapes: readonly Values[];
  readonly start: readonly Values[];
  readonly gradients: readonly (readonly Values[])[];
  readonly cases: Readonly<Record<string, { readonly plain: Trajectory; readonly skipping: Trajectory }>>;
}

interface AdamWDump extends Dump {
  readonly masterWeights: Readonly<
    Record<string, { readonly master: readonly Values[]; readonly weight: readonly Values[] }>
  >;
}

interface ClipDump {
  readonly shapes: readonly Values[];
  readonly gradients: readonly Values[];
  readonly cases: readonly { readonly maxNorm: number; readonly norm: number; readonly gradients: readonly Values[] }[];
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../fixtures/nn/${name}.json`, import.meta.url), "utf8")) as T;
}

function parametersOf(
  { shapes, start }: { readonly shapes: readonly Values[]; readonly start: readonly Values[] },
  device: Device,
  dtype: DType = "float32",
): Parameter[] {
  return start.map((values, i) => new Parameter(tensor(Float32Array.from(values), shapes[i]!, { dtype, device })));
}

function setGradient(parameter: Parameter, values: Values): void {
  const { shape, dtype, device } = parameter;
  parameter.grad = tensor(Float32Array.from(values), shape, { dtype, device });
}

function named(parameters: readonly Parameter[]): NamedParameters {
  return new Map(parameters.map((parameter, i) => [String(i), parameter]));
}

function relativeError(got: Values, expected: Values): number {
  const largest = Math.max(...expected.map(Math.abs));
  return Math.max(...expected.map((value, i) => Math.abs(value - got[i]!))) / largest;
}

interface Run {
  readonly device: Device;
  readonly create: (parameters: Parameter[]) => Optimizer;
  readonly isSkipping: boolean;
}

/** Takes the dumped steps and compares the parameters wherever the dump shows them. */
function follow(dump: Dump, trajectory: Trajectory, { device, create, isSkipping }: Run): void {
  const parameters = parametersOf(dump, device);
  const optimizer = create(parameters);
  for (const [i, gradients] of dump.gradients.entries()) {
    const step = i + 1;
    optimizer.zeroGrad();
    for (const [index, parameter] of parameters.entries()) {
      if (!isSkipping || (step + index) % 3 !== 0) setGradient(parameter, gradients[index]!);
    }
    optimizer.step();
    const shown = trajectory[step];
    if (shown === undefined) continue;
    for (const [index, parameter] of parameters.entries()) {
      expect(relativeError(parameter.toArray(), shown[index]!)).toBeLessThan(tolerance);
    }
  }
}

const devices: readonly Device[] = isCudaAvailable() ? ["cpu", "cuda"] : ["cpu"];

describe.each(devices)("AdamW on %s equals PyTorch", (device) => {
  const dump = read<AdamWDump>("adamw");
  const groupSettings: readonly Partial<AdamWSettings>[] = [
    { lr: 1e-3 },
    { weightDecay: 0.2 },
    { betas: [0.5, 0.9], eps: 1e-5 },
  ];
  const group = (parameter: Parameter, i: number): ParameterGroup<AdamWSettings> => ({
    parameters: new Map([[String(i), parameter]]),
    ...groupSettings[i],
  });
  const cases: Record<string, (parameters: Parameter[]) => Optimizer> = {
    default: (parameters) => new AdamW(named(parameters), { lr: 1e-2 }),
    decay: (parameters) => new AdamW(named(parameters), { lr: 1e-2, weightDecay: 0.1 }),
    betasAndEps: (parameters) =>
      new AdamW(named(parameters), { lr: 3e-3, betas: [0.8, 0.95], eps: 1e-3, weightDecay: 0 }),
    groups: (parameters) => new AdamW(parameters.map(group), { lr: 1e-2 }),
  };
  test.each(Object.entries(cases))("%s", (name, create) => {
    follow(dump, dump.cases[name]!.plain, { device, create, isSkipping: false });
  });
  test.each(Object.entries(cases))("%s, with steps that skip parameters", (name, create) => {
    follow(dump, dump.cases[name]!.skipping, { device, create, isSkipping: true });
  });

  test("float32 master weights of bfloat16 parameters", () => {
    const parameters = parametersOf(dump, device, "bfloat16");
    const optimizer = new AdamW(named(parameters), { lr: 1e-4, weightDecay: 0.1, masterWeights: true });
    for (const [i, gradients] of dump.gradients.entries()) {
      for (const [index, parameter] of parameters.entries()) setGradient(parameter, gradients[index]!);
      optimizer.step();
      const shown = dump.masterWeights[i + 1];
      if (shown === undefined) continue;
      const { tensors } = optimizer.stateDict();
      for (const [index, parameter] of parameters.entries()) {
        expect(relativeError(tensors.get(`master.${index}`)!.toArray(), shown.master[index]!)).toBeLessThan(tolerance);
        // A last bit of difference in the master may fall on the other side of a bfloat16 rounding: 2^-8.
        expect(relativeError(parameter.toArray(), shown.weight[index]!)).toBeLessThan(2 ** -8);
      }
    }
  });
});

describe.each(devices)("SGD on %s equals PyTorch", (device) => {
  const dump = read<Dump>("sgd");
  const cases: Record<string, (parameters: Parameter[]) => Optimizer> = {
    plain: (parameters) => new SGD(named(parameters), { lr: 1e-2 }),
    decay: (parameters) => new SGD(named(parameters), { lr: 1e-2, weightDecay: 0.1 }),
    momentum: (parameters) => new SGD(named(parameters), { lr: 1e-2, momentum: 0.9, weightDecay: 0.1 }),
    nesterov: (parameters) => new SGD(named(parameters), { lr: 1e-2, momentum: 0.9, isNesterov: true }),
  };
  test.each(Object.entries(cases))("%s", (name, create) => {
    follow(dump, dump.cases[name]!.plain, { device, create, isSkipping: false });
  });
  test.each(Object.entries(cases))("%s, with steps that skip parameters", (name, create) => {
    follow(dump, dump.cases[name]!.skipping, { device, create, isSkipping: true });
  });
});

describe.each(devices)("clipGradNorm on %s equals PyTorch", (device) => {
  const { shapes, gradients, cases } = read<ClipDump>("clip-grad-norm");
  test.each(cases)("for a maximum of $maxNorm", ({ maxNorm, norm, gradients: clipped }) => {
    const parameters = parametersOf({ shapes, start: gradients }, device);
    for (const [i, parameter] of parameters.entries()) setGradient(parameter, gradients[i]!);
    expect(relativeError([clipGradNorm(parameters, maxNorm).item()], [norm])).toBeLessThan(tolerance);
    for (const [i, parameter] of parameters.entries()) {
      expect(relativeError(parameter.grad!.toArray(), clipped[i]!)).toBeLessThan(tolerance);
    }
  });
});
