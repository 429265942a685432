/** Seeds and generators. All randomness is seeded: pass a Generator, or seed the process once at the start of a run. */
import { native } from "./binding.ts";
import type { Device } from "./dtype.ts";
import { ObjectHandle } from "./operator.ts";
import { Tensor } from "./tensor.ts";

/** Seeds the generators that operators use when no Generator is passed, on every device. */
export function manualSeed(seed: number): void {
  native.manualSeed(seed);
}

/** A separate stream of random numbers. */
export class Generator extends ObjectHandle {
  constructor(seed: number, device: Device = "cpu") {
    super(native.createGenerator(device, seed));
  }

  /** Starts the stream of this seed. */
  seed(seed: number): void {
    native.seedGenerator(this.handle, seed);
  }

  /** The whole state as a byte tensor, to be saved. */
  state(): Tensor {
    return new Tensor(native.generatorState(this.handle));
  }

  setState(state: Tensor): void {
    native.setGeneratorState(this.handle, state.handle);
  }
}

/** The state of a device's own generator, the one that manualSeed seeds. */
export function defaultGeneratorState(device: Device = "cpu"): Tensor {
  return new Tensor(native.generatorState(device));
}

export function setDefaultGeneratorState(state: Tensor, device: Device = "cpu"): void {
  native.setGeneratorState(device, state.handle);
}
