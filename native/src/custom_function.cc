// Autograd functions whose backward is JavaScript.
//
// customFunction(inputs, outputs, saved, backward): ties outputs that were computed without recording to their inputs.
// The node owns the saved tensors; `backward(gradOutputs, saved)` gets handles and returns handles, null for none.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "napi_call.h"

namespace reroll {

namespace {

using torch::autograd::variable_list;

// A reference to a JavaScript function that may be dropped on any thread, also after its own thread has ended.
class FunctionReference {
 public:
  FunctionReference(State& state, napi_value function) : link_(linkTo(state)) {
    check(state.env, napi_create_reference(state.env, function, 1, &reference_), "keep the backward function");
  }
  FunctionReference(const FunctionReference&) = delete;
  FunctionReference& operator=(const FunctionReference&) = delete;
  ~FunctionReference() {
    std::lock_guard<std::mutex> lock(link_->mutex);
    if (link_->state != nullptr) link_->state->deleteReferenceLater(reference_);
  }

  State& stateHere() const {
    std::lock_guard<std::mutex> lock(link_->mutex);
    TORCH_CHECK(link_->state != nullptr && link_->state->isOwnThread(),
                "a custom function written in TypeScript was asked for its gradient on another thread. Call backward "
                "on the thread that ran its forward.");
    return *link_->state;
  }
  napi_ref reference() const { return reference_; }

 private:
  std::shared_ptr<StateLink> link_;
  napi_ref reference_ = nullptr;
};

class ScopedHandles {
 public:
  explicit ScopedHandles(State& state) : state_(state), outerDepth_(state.scopeDepth()) {
    state_.enterScope();
    napi_open_handle_scope(state_.env, &handles_);
  }
  ~ScopedHandles() {
    napi_close_handle_scope(state_.env, handles_);
    while (state_.scopeDepth() > outerDepth_) state_.leaveScope({});
  }

 private:
  State& state_;
  const size_t outerDepth_;
  napi_handle_scope handles_;
};

struct JavaScriptBackward : torch::autograd::Node {
  JavaScriptBackward(State& state, napi_value function) : function(state, function) {}

  variable_list apply(variable_list&& gradOutputs) override {
    State& state = function.stateHere();
    const ScopedHandles handles(state);
    TORCH_CHECK(!isReleased,
                "the graph of this custom function was released by an earlier backward. Pass retainGraph: true.");
    std::vector<at::Tensor> savedTensors;
    for (const torch::autograd::SavedVariable& variable : saved) savedTensors.push_back(variable.unpack());
    napi_value callback, receiver, result;
    check(state.env, napi_get_reference_value(state.env, function.reference(), &callback), "find the backward");
    napi_get_undefined(state.env, &receiver);
    napi_value args[2] = {toJs(state, gradOutputs), toJs(state, savedTensors)};
    check(state.env, napi_call_function(state.env, receiver, callback, 2, args, &result), "call the backward");
    return readGradients(state, result);
  }

  void release_variables() override {
    saved.clear();
    isReleased = true;
  }

  std::string name() const override { return "JavaScriptBackward"; }

  variable_list readGradients(State& state, napi_value result) {
    uint32_t length = 0;
    TORCH_CHECK(napi_get_array_length(state.env, result, &length) == napi_ok && length == num_outputs(),
                "a custom backward must return one gradient (or null) per input: expected ", num_outputs(), ", got ",
                describeValue(state, result));
    variable_list gradients;
    for (uint32_t i = 0; i < length; i++) {
      napi_value element;
      napi_valuetype type;
      double handle;
      check(state.env, napi_get_element(state.env, result, i, &element), "read the gradients");
      napi_typeof(state.env, element, &type);
      if (type == napi_null) {
        gradients.emplace_back();
      } else {
        TORCH_CHECK(napi_get_value_double(state.env, element, &handle) == napi_ok,
                    "a custom backward must return a Tensor or null per input, got ", describeValue(state, element));
        gradients.push_back(state.tensor(handle, "gradient"));
      }
    }
    return gradients;
  }

  FunctionReference function;
  std::vector<torch::autograd::SavedVariable> saved;
  bool isReleased = false;
};

/** Nodes count their owners themselves in newer versions of libtorch, and are held by shared pointers in older ones. */
template <typename Node, typename... Inputs>
auto makeNode(Inputs&&... inputs) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Node>) {
    return c10::make_intrusive<Node>(std::forward<Inputs>(inputs)...);
  } else {
    return std::shared_ptr<Node>(new Node(std::forward<Inputs>(inputs)...), [](Node* node) { deleteNode(node); });
  }
}

napi_value customFunction(Arguments& args) {
  const std::vector<at::Tensor> inputs = args.tensors(0, "inputs");
  std::vector<at::Tensor> outputs = args.tensors(1, "outputs");
  const std::vector<at::Tensor> saved = args.tensors(2, "saved");
  napi_valuetype type;
  napi_typeof(args.state.env, args.value(3), &type);
  if (type != napi_function) throw Failure("INVALID_ARGUMENT", "the backward must be a function.");
  if (!c10::GradMode::is_enabled() || !torch::autograd::any_variable_requires_grad(inputs)) {
    return toJs(args.state, outputs);
  }
  const auto node = makeNode<JavaScriptBackward>(args.state, args.value(3));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (const at::Tensor& tensor : saved) node->saved.emplace_back(tensor, false);
  for (at::Tensor& output : outputs) {
    // A fresh alias: the output may be an input, a view, or already tied to a graph.
    output = output.detach();
    if (at::isFloatingType(output.scalar_type()))
      torch::autograd::create_gradient_edge(output, node);
    else
      node->add_input_metadata(torch::autograd::Node::undefined_input());
  }
  return toJs(args.state, outputs);
}

}  // namespace

std::vector<Export> customFunctionExports() { return {{"customFunction", customFunction}}; }

}  // namespace reroll
