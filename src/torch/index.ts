/** Tensors on libtorch: everything that models and algorithms are written with. */

export {
  applyFunction,
  backward,
  type CustomFunction,
  enableGrad,
  gradients,
  inferenceMode,
  isGradEnabled,
  noGrad,
} from "./autograd.ts";
export { checkpoint } from "./checkpoint.ts";
export {
  arange,
  cat,
  empty,
  emptyLike,
  full,
  multinomial,
  ones,
  onesLike,
  rand,
  randint,
  randn,
  stack,
  type TensorOptions,
  tensor,
  zeros,
  zerosLike,
} from "./create.ts";
export {
  CudaEvent,
  CudaGraph,
  CudaStream,
  cudaDeviceCount,
  cudaMemory,
  cudaProperties,
  cudaSynchronize,
  emptyCudaCache,
  isCudaAvailable,
  resetCudaPeak,
  setCudaDevice,
} from "./cuda.ts";
export { DataParallel } from "./distributed/data-parallel.ts";
export { ProcessGroup } from "./distributed/process-group.ts";
export { availableBackends, joinGroup, openStore } from "./distributed/rendezvous.ts";
export type { Device, DType, TensorData } from "./dtype.ts";
export { attention, packedAttention, rmsNorm, rotate, swiglu } from "./fused.ts";
export type { Operators, Scalar } from "./generated/operators.ts";
export { MappedFile } from "./mapped-file.ts";
export { memoryStats, numThreads, resetPeakMemory, setNumThreads } from "./memory.ts";
export { Embedding } from "./nn/embedding.ts";
export { GRU } from "./nn/gru.ts";
export { initialise } from "./nn/initialise.ts";
export { LayerNorm } from "./nn/layer-norm.ts";
export { Linear } from "./nn/linear.ts";
export { LSTM } from "./nn/lstm.ts";
export { MLP } from "./nn/mlp.ts";
export { Module, Parameter } from "./nn/module.ts";
export { RMSNorm } from "./nn/rms-norm.ts";
export { SelfAttention } from "./nn/self-attention.ts";
export { dynamicOp, hasOp, op } from "./operator.ts";
export { AdamW } from "./optim/adamw.ts";
export { clipGradNorm } from "./optim/clip-grad-norm.ts";
export {
  applySchedule,
  constantRate,
  cosineDecay,
  linearDecay,
  linearWarmup,
  type Schedule,
  withWarmup,
} from "./optim/schedule.ts";
export { SGD } from "./optim/sgd.ts";
export { discardParcel, receiveTensor, sendTensor, type TensorParcel } from "./parcel.ts";
export { defaultGeneratorState, Generator, manualSeed, setDefaultGeneratorState } from "./random.ts";
export { keep, tensorScope } from "./scope.ts";
export { Tensor } from "./tensor.ts";
