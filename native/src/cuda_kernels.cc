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
  // What it may take beside the memory that its source declares, and whether it leaves room for another kernel.
  int sharedBytes = 0;
  bool leavesRoom = false;
};

// The compiler and the driver, from the library through which libtorch itself reaches them. Linking to either would
// tie the addon to one CUDA version and to machines with a driver.
struct Compiler {
  // clang-format off
#define REROLL_FUNCTIONS(_)                                                                                   \
  _(nvrtcCreateProgram) _(nvrtcCompileProgram) _(nvrtcDestroyProgram) _(nvrtcGetErrorString)                  \
  _(nvrtcGetProgramLogSize) _(nvrtcGetProgramLog) _(nvrtcGetCUBINSize) _(nvrtcGetCUBIN) _(cuGetErrorString)   \
  _(cuModuleLoadData) _(cuModuleGetFunction) _(cuFuncSetAttribute) _(cuTensorMapEncodeTiled) _(cuLaunchKernelEx)
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
  // The "a" lets a kernel use what only this generation of processors has.
  const std::string architecture = "--gpu-architecture=sm_" +
                                   std::to_string(properties->major * 10 + properties->minor) +
                                   (properties->major == 9 ? "a" : "");
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

// How the copy engine reads a matrix of 16-bit floats, [rows, columns]: tiles of `tileRows` rows and 64 columns, which
// is 128 bytes, their 16-byte pieces swizzled as the tensor cores want them.
CUtensorMap tilesOf(const at::Tensor& matrix, uint32_t tileRows) {
  const bool isHalf = matrix.scalar_type() == at::kHalf;
  if (matrix.dim() != 2 || !matrix.is_contiguous() || !(isHalf || matrix.scalar_type() == at::kBFloat16)) {
    throw Failure("INVALID_ARGUMENT", describeTensor(matrix) + " is not a contiguous matrix of 16-bit floats.");
  }
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.size(1)), static_cast<cuuint64_t>(matrix.size(0))};
  const cuuint64_t rowBytes[] = {static_cast<cuuint64_t>(matrix.size(1)) * 2};
  const cuuint32_t tile[] = {64, tileRows};
  const cuuint32_t steps[] = {1, 1};
  checkDriver(nvrtc().cuTensorMapEncodeTiled(
                  &map, isHalf ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                  matrix.data_ptr(), sizes, rowBytes, tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
              "describe a matrix to the copy engine");
  return map;
}

// launchKernel(kernel, grid, block, sharedBytes, overlaps, kinds, values): one letter per value, t tensor, i int32, l
// int64, f float32, m the tiles of a matrix, r the rows of such a tile, which comes after its m and is no argument of
// its own. A tensor is passed as the address of its first element. A kernel that overlaps starts before the one in
// front of it has ended, and waits for it by itself.
napi_value launchKernel(Arguments& args) {
  auto kernel = std::static_pointer_cast<KernelObject>(args.state.object(args.number(0, "kernel"), "CudaKernel"));
  const std::vector<int64_t> grid = args.integers(1, "grid");
  const std::vector<int64_t> block = args.integers(2, "block");
  const int sharedBytes = static_cast<int>(args.integer(3, "sharedBytes"));
  const std::string kinds = args.string(5, "kinds");
  const std::vector<double> values = args.numbers(6, "values");
  if (grid.size() != 3 || block.size() != 3 || kinds.size() != values.size() || kinds.size() > 32) {
    throw Failure("INVALID_ARGUMENT", "a launch needs 3 grid and 3 block sizes and at most 32 arguments.");
  }
  union Slot {
    void* pointer;
    int32_t int32;
    int64_t int64;
    float float32;
    CUtensorMap map;
  };
  Slot slots[32];
  void* pointers[32];
  size_t count = 0;
  for (size_t i = 0; i < kinds.size(); i++) {
    Slot& slot = slots[count];
    pointers[count++] = &slot;
    switch (kinds[i]) {
      case 't':
      case 'm': {
        const at::Tensor& tensor = args.state.tensor(values[i], "kernel argument");
        // A kernel reaches pinned memory of the host too.
        if (!tensor.is_cuda() && !tensor.is_pinned()) {
          throw Failure("INVALID_ARGUMENT", describeTensor(tensor) + " is not on a CUDA device.");
        }
        if (kinds[i] == 't') {
          slot.pointer = tensor.data_ptr();
          break;
        }
        if (i + 1 == kinds.size() || kinds[i + 1] != 'r')
          throw Failure("INVALID_ARGUMENT", "an m needs an r after it.");
        slot.map = tilesOf(tensor, static_cast<uint32_t>(values[++i]));
        break;
      }
      case 'i':
        slot.int32 = static_cast<int32_t>(values[i]);
        break;
      case 'l':
        slot.int64 = static_cast<int64_t>(values[i]);
        break;
      case 'f':
        slot.float32 = static_cast<float>(values[i]);
        break;
      default:
        throw Failure("INVALID_ARGUMENT", "argument kinds are t, i, l, f, m and r.");
    }
  }
  if (sharedBytes > kernel->sharedBytes) {
    checkDriver(
        nvrtc().cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, sharedBytes),
        "give the kernel its shared memory");
    kernel->sharedBytes = sharedBytes;
  }
  const bool overlaps = args.boolean(4, "overlaps");
  if (overlaps && !kernel->leavesRoom) {
    // A processor that has given its memory to the first-level cache cannot hold the shared memory of two kernels.
    checkDriver(nvrtc().cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                           CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
                "leave room for another kernel");
    kernel->leavesRoom = true;
  }
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = grid[0];
  config.gridDimY = grid[1];
  config.gridDimZ = grid[2];
  config.blockDimX = block[0];
  config.blockDimY = block[1];
  config.blockDimZ = block[2];
  config.sharedMemBytes = sharedBytes;
  config.hStream = c10::cuda::getCurrentCUDAStream().stream();
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  checkDriver(nvrtc().cuLaunchKernelEx(&config, kernel->function, pointers, nullptr), "launch the kernel");
  return nullptr;
}

}  // namespace

std::vector<Export> cudaKernelExports() { return {{"compileKernel", compileKernel}, {"launchKernel", launchKernel}}; }

#endif

}  // namespace reroll
