// CUDA where libtorch has it: devices, streams, events, memory statistics, graphs.
#include "napi_call.h"

#ifdef REROLL_CUDA
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>
#endif

namespace reroll {

#ifndef REROLL_CUDA

std::vector<Export> cudaExports() {
  return {{"cudaDeviceCount", [](Arguments& args) { return toJs(args.state, 0.0); }}};
}

#else

namespace {

struct StreamObject : NativeObject {
  explicit StreamObject(c10::cuda::CUDAStream stream) : stream(stream) {}
  const char* kind() const override { return "CudaStream"; }
  c10::cuda::CUDAStream stream;
};

struct EventObject : NativeObject {
  explicit EventObject(bool hasTiming) : event(hasTiming ? cudaEventDefault : cudaEventDisableTiming) {}
  const char* kind() const override { return "CudaEvent"; }
  at::cuda::CUDAEvent event;
};

struct GraphObject : NativeObject {
  const char* kind() const override { return "CudaGraph"; }
  at::cuda::CUDAGraph graph;
};

template <typename Object>
Object& objectAt(Arguments& args, size_t i, const char* kind) {
  return static_cast<Object&>(*args.state.object(args.number(i, kind), kind));
}

c10::DeviceIndex deviceAt(Arguments& args, size_t i) {
  return args.isMissing(i) ? c10::cuda::current_device() : static_cast<c10::DeviceIndex>(args.integer(i, "device"));
}

napi_value deviceCount(Arguments& args) { return toJs(args.state, static_cast<double>(c10::cuda::device_count())); }

napi_value setDevice(Arguments& args) {
  c10::cuda::set_device(deviceAt(args, 0));
  return nullptr;
}

napi_value synchronize(Arguments&) {
  c10::cuda::device_synchronize();
  return nullptr;
}

// As PyTorch writes it: 8-4-4-4-12 hexadecimal digits.
std::string uuidOf(const cudaDeviceProp& properties) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < sizeof(properties.uuid.bytes); i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(properties.uuid.bytes[i]);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

napi_value deviceProperties(Arguments& args) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(deviceAt(args, 0));
  napi_value result;
  napi_create_object(args.state.env, &result);
  const auto set = [&](const char* name, double value) {
    setProperty(args.state, result, name, toJs(args.state, value));
  };
  setProperty(args.state, result, "name", toJs(args.state, std::string(properties->name)));
  set("totalBytes", static_cast<double>(properties->totalGlobalMem));
  set("numProcessors", properties->multiProcessorCount);
  set("computeMajor", properties->major);
  set("computeMinor", properties->minor);
  setProperty(args.state, result, "uuid", toJs(args.state, uuidOf(*properties)));
  return result;
}

napi_value memory(Arguments& args) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(deviceAt(args, 0));
  napi_value result;
  napi_create_object(args.state.env, &result);
  const auto set = [&](const char* name, int64_t value) {
    setProperty(args.state, result, name, toJs(args.state, static_cast<double>(value)));
  };
  // Index 0 is the sum over the small and the large pool.
  set("liveBytes", stats.allocated_bytes[0].current);
  set("peakBytes", stats.allocated_bytes[0].peak);
  set("reservedBytes", stats.reserved_bytes[0].current);
  return result;
}

napi_value resetPeak(Arguments& args) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(deviceAt(args, 0));
  return nullptr;
}

napi_value emptyCache(Arguments&) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  return nullptr;
}

// cudaShareMemory(tensor): { handle, offsetBytes }, by which another process reads the tensor's memory in place. The
// handle is that of CUDA where the allocator took the memory by cudaMalloc, whatever libtorch puts before it.
napi_value shareMemory(Arguments& args) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6)
  const at::Tensor& tensor = args.tensor(0, "tensor");
  if (!tensor.is_cuda() || !tensor.is_contiguous()) {
    throw Failure("INVALID_ARGUMENT", "argument 'tensor' must be contiguous and on a CUDA device.");
  }
  const auto shared = c10::cuda::CUDACachingAllocator::shareIpcHandle(tensor.storage().mutable_data());
  constexpr size_t kPrefix = 2;  // a version of libtorch's and the kind of memory
  const bool isPlain = shared.handle.size() == kPrefix + sizeof(cudaIpcMemHandle_t) && shared.handle[1] == 'c';
  const std::string handle = isPlain ? shared.handle.substr(kPrefix) : shared.handle;
  std::vector<int64_t> bytes;
  for (const char one : handle) bytes.push_back(static_cast<unsigned char>(one));
  napi_value result;
  napi_create_object(args.state.env, &result);
  setProperty(args.state, result, "handle", toJs(args.state, at::IntArrayRef(bytes)));
  const auto offset =
      static_cast<double>(shared.offset) + static_cast<double>(tensor.storage_offset()) * tensor.element_size();
  setProperty(args.state, result, "offsetBytes", toJs(args.state, offset));
  return result;
#else
  throw Failure("UNSUPPORTED_FEATURE",
                "memory for other processes needs libtorch 2.6 or later: this is " TORCH_VERSION ".");
#endif
}

napi_value createStream(Arguments& args) {
  const bool isHighPriority = !args.isMissing(0) && args.boolean(0, "isHighPriority");
  auto stream = c10::cuda::getStreamFromPool(isHighPriority, deviceAt(args, 1));
  return toJs(args.state, args.state.insertObject(std::make_shared<StreamObject>(stream)));
}

napi_value currentStream(Arguments& args) {
  auto stream = c10::cuda::getCurrentCUDAStream(deviceAt(args, 0));
  return toJs(args.state, args.state.insertObject(std::make_shared<StreamObject>(stream)));
}

napi_value setStream(Arguments& args) {
  c10::cuda::setCurrentCUDAStream(objectAt<StreamObject>(args, 0, "CudaStream").stream);
  return nullptr;
}

napi_value synchronizeStream(Arguments& args) {
  objectAt<StreamObject>(args, 0, "CudaStream").stream.synchronize();
  return nullptr;
}

napi_value createEvent(Arguments& args) {
  const bool hasTiming = !args.isMissing(0) && args.boolean(0, "hasTiming");
  return toJs(args.state, args.state.insertObject(std::make_shared<EventObject>(hasTiming)));
}

napi_value recordEvent(Arguments& args) {
  objectAt<EventObject>(args, 0, "CudaEvent").event.record();
  return nullptr;
}

// Work queued on the current stream from now on waits for the event.
napi_value waitEvent(Arguments& args) {
  objectAt<EventObject>(args, 0, "CudaEvent").event.block(c10::cuda::getCurrentCUDAStream());
  return nullptr;
}

napi_value isEventDone(Arguments& args) {
  return toJsBoolean(args.state, objectAt<EventObject>(args, 0, "CudaEvent").event.query());
}

napi_value synchronizeEvent(Arguments& args) {
  objectAt<EventObject>(args, 0, "CudaEvent").event.synchronize();
  return nullptr;
}

napi_value elapsedMs(Arguments& args) {
  EventObject& start = objectAt<EventObject>(args, 0, "CudaEvent");
  EventObject& end = objectAt<EventObject>(args, 1, "CudaEvent");
  return toJs(args.state, static_cast<double>(start.event.elapsed_time(end.event)));
}

napi_value createGraph(Arguments& args) {
  return toJs(args.state, args.state.insertObject(std::make_shared<GraphObject>()));
}

// beginCapture(graph, poolOf?): kernels queued on the current stream are recorded instead of run. Graphs that name
// another graph share its memory pool, which is safe when they never run at the same time.
napi_value beginCapture(Arguments& args) {
  GraphObject& graph = objectAt<GraphObject>(args, 0, "CudaGraph");
  const auto pool =
      args.isMissing(1) ? at::cuda::MempoolId_t{0, 0} : objectAt<GraphObject>(args, 1, "CudaGraph").graph.pool();
  graph.graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  return nullptr;
}

napi_value endCapture(Arguments& args) {
  objectAt<GraphObject>(args, 0, "CudaGraph").graph.capture_end();
  return nullptr;
}

napi_value replayGraph(Arguments& args) {
  objectAt<GraphObject>(args, 0, "CudaGraph").graph.replay();
  return nullptr;
}

// A product that is cut along its inner dimension is added up in another order, and whether it is cut depends on how
// many rows it has. Without cuts a row comes out the same, whatever stands beside it. The setting holds for the
// process.
napi_value keepProductsWhole(Arguments&) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 10)
  at::globalContext().setBlasPreferredBackend(at::BlasBackend::Cublaslt);
  at::globalContext().setAllowBF16ReductionCuBLAS(false, false);
  at::globalContext().setAllowFP16ReductionCuBLAS(false, false);
  return nullptr;
#else
  throw Failure("UNSUPPORTED_FEATURE", "products whole need libtorch 2.10 or later: this is " TORCH_VERSION ".");
#endif
}

napi_value areProductsWhole(Arguments& args) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 10)
  return toJsBoolean(args.state, at::globalContext().allowBF16ReductionCuBLAS() ==
                                     at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK);
#else
  return toJsBoolean(args.state, false);
#endif
}

}  // namespace

std::vector<Export> cudaExports() {
  return {{"cudaKeepProductsWhole", keepProductsWhole},
          {"cudaAreProductsWhole", areProductsWhole},
          {"cudaDeviceCount", deviceCount},
          {"cudaSetDevice", setDevice},
          {"cudaSynchronize", synchronize},
          {"cudaDeviceProperties", deviceProperties},
          {"cudaMemory", memory},
          {"cudaResetPeak", resetPeak},
          {"cudaEmptyCache", emptyCache},
          {"cudaShareMemory", shareMemory},
          {"cudaCreateStream", createStream},
          {"cudaCurrentStream", currentStream},
          {"cudaSetStream", setStream},
          {"cudaSynchronizeStream", synchronizeStream},
          {"cudaCreateEvent", createEvent},
          {"cudaRecordEvent", recordEvent},
          {"cudaWaitEvent", waitEvent},
          {"cudaIsEventDone", isEventDone},
          {"cudaSynchronizeEvent", synchronizeEvent},
          {"cudaElapsedMs", elapsedMs},
          {"cudaCreateGraph", createGraph},
          {"cudaBeginCapture", beginCapture},
          {"cudaEndCapture", endCapture},
          {"cudaReplayGraph", replayGraph}};
}

#endif

}  // namespace reroll
