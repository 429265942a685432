// The addon: one State per JavaScript thread, and the functions of every file.
#include <torch/csrc/api/include/torch/version.h>

#include "allocator.h"
#include "napi_call.h"

namespace reroll {

namespace {

void destroyState(napi_env, void* data, void*) { delete static_cast<State*>(data); }

napi_value initialize(napi_env env, napi_value exports) {
  installAllocator();
  State* state = new State(env);
  if (napi_set_instance_data(env, state, destroyState, nullptr) != napi_ok) {
    delete state;
    napi_throw_error(env, "INTERNAL", "reroll.node: could not set instance data");
    return nullptr;
  }
  for (const auto& functions :
       {allocatorExports(), autogradExports(), cudaExports(), cudaKernelExports(), customFunctionExports(),
        distributedExports(), mappedFileExports(), operatorExports(), pagedAttentionExports(), parcelExports(),
        randomExports(), rowPassExports(), sampleRowExports(), stateExports(), steadyProductExports(),
        tensorDataExports(), tunedProductExports()}) {
    exportFunctions(*state, exports, functions);
  }
  setProperty(*state, exports, "torchVersion", toJs(*state, std::string(TORCH_VERSION)));
#ifdef REROLL_CUDA
  setProperty(*state, exports, "builtWithCuda", toJsBoolean(*state, true));
#else
  setProperty(*state, exports, "builtWithCuda", toJsBoolean(*state, false));
#endif
  return exports;
}

}  // namespace

}  // namespace reroll

NAPI_MODULE_INIT() { return reroll::initialize(env, exports); }
