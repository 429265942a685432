// CUDA kernels from source text: compiled at run time by the compiler that libtorch brings along (NVRTC), launched on
// the current stream. So a fused operator is a page of TypeScript with its kernel in it, and needs no nvcc.
#include "napi_call.h"

#ifdef REROLL_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>
#endif

namespace reroll {

#ifndef REROLL_CUDA

std::vector<Export> cudaKernelExports() { return {}; }

#else

namespace {

struct KernelObject : NativeObject {
  const char* kind() const override { return "CudaKernel"; }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

// The compiler and the driver, from the library through which libtorch itself reaches them. Linking to either would
// tie the addon to one CUDA version and to machines with a driver.
struct Compiler {
  // clang-format off
#define REROLL_FUNCTIONS(_)                                                                                   \
  _(nvrtcCreateProgram) _(nvrtcCompileProgram) _(nvrtcDestroyProgram) _(nvrtcGetErrorString)                  \
  _(nvrtcGetProgramLogSize) _(nvrtcGetProgramLog) _(nvrtcGetCUBINSize) _(nvrtcGetCUBIN) _(cuGetErrorString)   \
  _(cuModuleLoadData) _(cuModuleGetFunction) _(cuLaunchKernel)
// clang-format on
#define REROLL_DECLARE(name) decltype(&::name) name;
  REROLL_FUNCTIONS(REROLL_DECLARE)

  Compiler() {
    void* library = dlopen("libcaffe2_nvrtc.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Failure("CUDA_KERNEL", std::string("cannot load the CUDA compiler: ") + dlerror());
#define REROLL_FIND(name) find(library, #name, &name);
    REROLL_FUNCTIONS(REROLL_FIND)
  }

  template <typename Function>
  static void find(void* library, const char* name, Function* target) {
    *target = reinterpret_cast<Function>(dlsym(library, name));
    if (*target == nullptr)
      throw Failure("CUDA_KERNEL", std::string("the CUDA compiler has no function ") + name + ".");
  }
};

const Compiler& nvrtc() {
  static const Compiler compiler;
  return compiler;
}

void checkCompiler(nvrtcResult result, const char* doing) {
  if (result == NVRTC_SUCCESS) return;
  throw Failure("CUDA_KERNEL", std::string("could not ") + doing + ": " + nvrtc().nvrtcGetErrorString(result) + ".");
}

void checkDriver(CUresult result, const char* doing) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  nvrtc().cuGetErrorString(result, &text);
  throw Failure("CUDA_KERNEL",
                std::string("could not ") + doing + ": " + (text != nullptr ? text : "unknown error") + ".");
}

std::string compilerLog(nvrtcProgram program) {
  size_t size = 0;
  nvrtc().nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  if (size > 0) nvrtc().nvrtcGetProgramLog(program, &log[0]);
  return log;
}

// compileKernel(source, name): `name` is an extern "C" __global__ function of the source.
napi_value compileKernel(Arguments& args) {
  const std::string source = args.string(0, "source");
  const std::string name = args.string(1, "name");
  const cudaDeviceProp* properties = at::cuda::getCurrentDeviceProperties();
  const std::string architecture =
      "--gpu-architecture=sm_" + std::to_string(properties->major * 10 + properties->minor);
  const char* options[] = {architecture.c_str(), "--std=c++17"};
  nvrtcProgram program;
  checkCompiler(nvrtc().nvrtcCreateProgram(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr),
                "read the source");
  const nvrtcResult compiled = nvrtc().nvrtcCompileProgram(program, 2, options);
  if (compiled != NVRTC_SUCCESS) {
    const std::string log = compilerLog(program);
    nvrtc().nvrtcDestroyProgram(&program);
    throw Failure("CUDA_KERNEL", "kernel \"" + name + "\" does not compile:\n" + log);
  }
  size_t size = 0;
  checkCompiler(nvrtc().nvrtcGetCUBINSize(program, &size), "fetch the code");
  std::vector<char> code(size);
  checkCompiler(nvrtc().nvrtcGetCUBIN(program, code.data()), "fetch the code");
  nvrtc().nvrtcDestroyProgram(&program);
  auto kernel = std::make_shared<KernelObject>();
  // The module stays loaded for the life of the process: kernels are few, and work may be in flight.
  checkDriver(nvrtc().cuModuleLoadData(&kernel->module, code.data()), "load the code");
  checkDriver(nvrtc().cuModuleGetFunction(&kernel->function, kernel->module, name.c_str()), "find the kernel");
  return toJs(args.state, args.state.insertObject(std::move(kernel)));
}

// launchKernel(kernel, grid, block, sharedBytes, kinds, values): one letter per argument, t tensor, i int32, l int64,
// f float32. A tensor is passed as the address of its first element.
napi_value launchKernel(Arguments& args) {
  auto kernel = std::static_pointer_cast<KernelObject>(args.state.object(args.number(0, "kernel"), "CudaKernel"));
  const std::vector<int64_t> grid = args.integers(1, "grid");
  const std::vector<int64_t> block = args.integers(2, "block");
  const std::string kinds = args.string(4, "kinds");
  const std::vector<double> values = args.numbers(5, "values");
  if (grid.size() != 3 || block.size() != 3 || kinds.size() != values.size() || kinds.size() > 32) {
    throw Failure("INVALID_ARGUMENT", "a launch needs 3 grid and 3 block sizes and at most 32 arguments.");
  }
  union Slot {
    void* pointer;
    int32_t int32;
    int64_t int64;
    float float32;
  };
  Slot slots[32];
  void* pointers[32];
  for (size_t i = 0; i < kinds.size(); i++) {
    pointers[i] = &slots[i];
    switch (kinds[i]) {
      case 't': {
        const at::Tensor& tensor = args.state.tensor(values[i], "kernel argument");
        if (!tensor.is_cuda()) throw Failure("INVALID_ARGUMENT", describeTensor(tensor) + " is not on a CUDA device.");
        slots[i].pointer = tensor.data_ptr();
        break;
      }
      case 'i':
        slots[i].int32 = static_cast<int32_t>(values[i]);
        break;
      case 'l':
        slots[i].int64 = static_cast<int64_t>(values[i]);
        break;
      case 'f':
        slots[i].float32 = static_cast<float>(values[i]);
        break;
      default:
        throw Failure("INVALID_ARGUMENT", "argument kinds are t, i, l and f.");
    }
  }
  checkDriver(nvrtc().cuLaunchKernel(kernel->function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                     static_cast<unsigned>(args.integer(3, "sharedBytes")),
                                     c10::cuda::getCurrentCUDAStream().stream(), pointers, nullptr),
              "launch the kernel");
  return nullptr;
}

}  // namespace

std::vector<Export> cudaKernelExports() { return {{"compileKernel", compileKernel}, {"launchKernel", launchKernel}}; }

#endif

}  // namespace reroll
