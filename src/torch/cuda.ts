/** CUDA: devices, memory, streams, events, and graphs that replay recorded work. Nothing here exists without a GPU. */
import { RerollError } from "../errors/reroll-error.ts";
import { type CudaMemory, type CudaProperties, native, type SharedCudaMemory } from "./binding.ts";
import { setupCommand } from "./find-addon.ts";
import { ObjectHandle } from "./operator.ts";
import type { Tensor } from "./tensor.ts";

/** Whether this build and this machine have a CUDA device. */
export function isCudaAvailable(): boolean {
  return native.cudaDeviceCount() > 0;
}

export function cudaDeviceCount(): number {
  return native.cudaDeviceCount();
}

/** Makes a device the current one of this thread. */
export function setCudaDevice(index: number): void {
  cuda().cudaSetDevice(index);
}

/** Waits until the device has done all its work. */
export function cudaSynchronize(): void {
  cuda().cudaSynchronize();
}

export function cudaProperties(index?: number): CudaProperties {
  return cuda().cudaDeviceProperties(index);
}

/** Live, peak and reserved bytes of the allocator of a device. */
export function cudaMemory(index?: number): CudaMemory {
  return cuda().cudaMemory(index);
}

export function resetCudaPeak(index?: number): void {
  cuda().cudaResetPeak(index);
}

/** Gives memory that no tensor uses back to the device. */
export function emptyCudaCache(): void {
  cuda().cudaEmptyCache();
}

/**
 * How another process on the same device reads a contiguous tensor in place. The tensor must live, and not change, until that process is done;
 * what computes it must have ended (`cudaSynchronize`).
 */
export function shareCudaMemory(tensor: Tensor): SharedCudaMemory {
  return cuda().cudaShareMemory(tensor.handle);
}

/** A queue of work. Work on different streams may run at the same time. */
export class CudaStream extends ObjectHandle {
  constructor({ isHighPriority = false } = {}) {
    super(cuda().cudaCreateStream(isHighPriority));
  }

  /** Runs `body` with this stream as the current one of the thread. */
  run<T>(body: () => T): T {
    const previous = cuda().cudaCurrentStream();
    cuda().cudaSetStream(this.handle);
    try {
      return body();
    } finally {
      cuda().cudaSetStream(previous);
      native.releaseObject(previous);
    }
  }

  synchronize(): void {
    cuda().cudaSynchronizeStream(this.handle);
  }
}

/** A point in a stream that others can wait for, or measure time to. */
export class CudaEvent extends ObjectHandle {
  constructor({ hasTiming = false } = {}) {
    super(cuda().cudaCreateEvent(hasTiming));
  }

  /** Marks the end of what is queued on the current stream. */
  record(): this {
    cuda().cudaRecordEvent(this.handle);
    return this;
  }

  /** Work queued on the current stream after this call waits for the event. The thread does not. */
  holdStream(): void {
    cuda().cudaWaitEvent(this.handle);
  }

  get isDone(): boolean {
    return cuda().cudaIsEventDone(this.handle);
  }

  synchronize(): void {
    cuda().cudaSynchronizeEvent(this.handle);
  }

  /** Milliseconds from another event to this one; both record with timing. */
  elapsedSince(start: CudaEvent): number {
    return cuda().cudaElapsedMs(start.handle, this.handle);
  }
}

/**
 * Work recorded once and replayed at the cost of one launch. The recorded kernels read and write the same memory each
 * time: put new inputs into the tensors that `body` used, and read results from those it returned.
 */
export class CudaGraph extends ObjectHandle {
  constructor() {
    super(cuda().cudaCreateGraph());
  }

  /** Records `body`. It must not read values back; graphs that never run at the same time can share memory. */
  capture<T>(body: () => T, { shareMemoryWith }: { readonly shareMemoryWith?: CudaGraph } = {}): T {
    const stream = new CudaStream();
    cudaSynchronize();
    return stream.run(() => {
      cuda().cudaBeginCapture(this.handle, shareMemoryWith?.handle);
      try {
        return body();
      } finally {
        cuda().cudaEndCapture(this.handle);
      }
    });
  }

  replay(): void {
    cuda().cudaReplayGraph(this.handle);
  }
}

function cuda(): typeof native {
  if (!native.builtWithCuda) {
    throw new RerollError(
      "NO_DEVICE",
      `This build uses libtorch ${native.torchVersion} without CUDA. Set REROLL_LIBTORCH to a libtorch with CUDA ` +
        `(the torch folder of a Python installation) and run "${setupCommand}".`,
    );
  }
  return native;
}
