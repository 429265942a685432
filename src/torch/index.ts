/** Tensors on libtorch: everything that models and algorithms are written with. */

export {
  applyFunction,
  backward,
  type CustomFunction,
  enableGrad,
  type GradientOptions,
  gradients,
  inferenceMode,
  isGradEnabled,
  noGrad,
} from "./autograd.ts";
export type { CudaMemory, CudaProperties, MemoryStats } from "./binding.ts";
export {
  arange,
  cat,
  empty,
  emptyLike,
  full,
  multinomial,
  type NestedNumbers,
  ones,
  onesLike,
  type RandomOptions,
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
export { DataParallel, type DataParallelOptions } from "./distributed/data-parallel.ts";
export { type Backend, ProcessGroup, type Reduction } from "./distributed/process-group.ts";
export {
  availableBackends,
  type JoinOptions,
  joinGroup,
  openStore,
  type Store,
  type StoreOptions,
} from "./distributed/rendezvous.ts";
export type { Device, DType, TensorData } from "./dtype.ts";
export {
  type AttentionOptions,
  attention,
  type PackedAttentionOptions,
  packedAttention,
  rmsNorm,
  rotate,
} from "./fused.ts";
export type { Operators, Scalar } from "./generated/operators.ts";
export { MappedFile } from "./mapped-file.ts";
export { memoryStats, numThreads, resetPeakMemory, setNumThreads } from "./memory.ts";
export type { ActivationName } from "./nn/activation.ts";
export { Embedding, type EmbeddingOptions } from "./nn/embedding.ts";
export { GRU, type GRUState } from "./nn/gru.ts";
export { type InitializeOptions, type Initializer, initialize } from "./nn/initialize.ts";
export { LayerNorm, type LayerNormOptions } from "./nn/layer-norm.ts";
export { Linear, type LinearOptions } from "./nn/linear.ts";
export { LSTM, type LSTMState } from "./nn/lstm.ts";
export { MLP, type MLPOptions } from "./nn/mlp.ts";
export { Module, Parameter } from "./nn/module.ts";
export type { RecurrentOptions } from "./nn/recurrent-weights.ts";
export { RMSNorm, type RMSNormOptions } from "./nn/rms-norm.ts";
export { dynamicOp, hasOp, type OperatorOptions, op } from "./operator.ts";
export { AdamW, type AdamWOptions } from "./optim/adamw.ts";
export { type ClipGradNormOptions, clipGradNorm } from "./optim/clip-grad-norm.ts";
export type { Optimizer, OptimizerState } from "./optim/optimizer.ts";
export type { NamedParameters, ParameterGroup, ParameterGroups } from "./optim/parameter-group.ts";
export {
  applySchedule,
  constantRate,
  cosineDecay,
  linearDecay,
  linearWarmup,
  type Schedule,
  withWarmup,
} from "./optim/schedule.ts";
export { SGD, type SGDOptions } from "./optim/sgd.ts";
export { discardParcel, receiveTensor, sendTensor, type TensorParcel } from "./parcel.ts";
export { defaultGeneratorState, Generator, manualSeed, setDefaultGeneratorState } from "./random.ts";
export { recompute } from "./recompute.ts";
export { keep, tensorScope } from "./scope.ts";
export { swiglu } from "./swiglu.ts";
export { Tensor } from "./tensor.ts";
