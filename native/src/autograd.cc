// Gradients and the modes that switch their recording.
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/autograd/autograd.h>

#include "napi_call.h"

namespace reroll {

namespace {

// JavaScript may only be called on its own thread, so backward passes run on the calling thread: custom functions
// written in TypeScript are then called where they live. libtorch 1.x runs CPU passes there anyway.
class SingleThreadedBackward {
 public:
#if TORCH_VERSION_MAJOR >= 2
  SingleThreadedBackward() : previous_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  }
  ~SingleThreadedBackward() { c10::AutogradState::get_tls_state().set_multithreading_enabled(previous_); }

 private:
  bool previous_;
#endif
};

napi_value requiresGrad(Arguments& args) { return toJsBoolean(args.state, args.tensor(0, "tensor").requires_grad()); }

napi_value setRequiresGrad(Arguments& args) {
  args.tensor(0, "tensor").requires_grad_(args.boolean(1, "requiresGrad"));
  return nullptr;
}

napi_value isLeaf(Arguments& args) { return toJsBoolean(args.state, args.tensor(0, "tensor").is_leaf()); }

napi_value grad(Arguments& args) { return toJs(args.state, args.tensor(0, "tensor").grad()); }

napi_value setGrad(Arguments& args) {
  const at::Tensor& tensor = args.tensor(0, "tensor");
  if (args.isMissing(1)) {
    tensor.mutable_grad().reset();
    return nullptr;
  }
  const at::Tensor& value = args.tensor(1, "grad");
  // A tensor that holds itself is never freed.
  if (value.is_same(tensor)) throw Failure("INVALID_ARGUMENT", "a tensor cannot be its own gradient; clone it.");
  if (!value.sizes().equals(tensor.sizes()) || value.scalar_type() != tensor.scalar_type() ||
      value.device() != tensor.device()) {
    throw Failure("SHAPE_MISMATCH", "the gradient of " + describeTensor(tensor) + " cannot be " +
                                        describeTensor(value) + ": shape, dtype and device must be equal.");
  }
  tensor.mutable_grad() = value;
  return nullptr;
}

// backward(tensors, gradients, retainGraph, createGraph, inputs)
napi_value backward(Arguments& args) {
  [[maybe_unused]] const SingleThreadedBackward guard;
  torch::autograd::backward(args.tensors(0, "tensors"), args.tensors(1, "gradients"), args.boolean(2, "retainGraph"),
                            args.boolean(3, "createGraph"), args.tensors(4, "inputs"));
  return nullptr;
}

// gradients(outputs, inputs, gradOutputs, retainGraph, createGraph): null for an input that was not used.
napi_value gradients(Arguments& args) {
  [[maybe_unused]] const SingleThreadedBackward guard;
  return toJs(args.state, torch::autograd::grad(args.tensors(0, "outputs"), args.tensors(1, "inputs"),
                                                args.tensors(2, "gradOutputs"), args.boolean(3, "retainGraph"),
                                                args.boolean(4, "createGraph"), true));
}

napi_value isGradEnabled(Arguments& args) { return toJsBoolean(args.state, c10::GradMode::is_enabled()); }

napi_value setGradEnabled(Arguments& args) {
  c10::GradMode::set_enabled(args.boolean(0, "enabled"));
  return nullptr;
}

napi_value enterInferenceMode(Arguments& args) {
  args.state.inferenceModes.push_back(std::make_unique<c10::InferenceMode>(true));
  return nullptr;
}

napi_value leaveInferenceMode(Arguments& args) {
  if (args.state.inferenceModes.empty()) throw Failure("INTERNAL", "there is no inference mode to leave.");
  args.state.inferenceModes.pop_back();
  return nullptr;
}

}  // namespace

std::vector<Export> autogradExports() {
  return {{"requiresGrad", requiresGrad},
          {"setRequiresGrad", setRequiresGrad},
          {"isLeaf", isLeaf},
          {"grad", grad},
          {"setGrad", setGrad},
          {"backward", backward},
          {"gradients", gradients},
          {"isGradEnabled", isGradEnabled},
          {"setGradEnabled", setGradEnabled},
          {"enterInferenceMode", enterInferenceMode},
          {"leaveInferenceMode", leaveInferenceMode}};
}

}  // namespace reroll
