#include "operators.h"

#include <sstream>

namespace reroll {

namespace {

constexpr size_t kMaxArguments = 64;

// "aten::add.Tensor" is operator aten::add, overload Tensor.
c10::OperatorName parseName(const std::string& name) {
  const size_t start = name.find("::");
  const size_t dot = start == std::string::npos ? std::string::npos : name.find('.', start);
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// What the operator was called with, for its error message: "self float32[2, 3], mat2 float32[4, 5]".
std::string describeCall(OperatorEntry& entry, const napi_value* values, size_t count) {
  std::string text;
  for (size_t i = 0; i < count && i < entry.arguments.size(); i++) {
    napi_valuetype type;
    napi_typeof(entry.state.env, values[i], &type);
    if (type == napi_undefined) continue;
    text += (text.empty() ? "" : ", ") + entry.arguments[i].name + " " + describeValue(entry.state, values[i]);
  }
  return text;
}

// To be called where an exception is being handled.
void throwOperatorError(OperatorEntry& entry, const napi_value* values, size_t count) {
  const std::string call = describeCall(entry, values, count);
  const std::string place = call.empty() ? entry.name : entry.name + "(" + call + ")";
  throwToJs(entry.state, place.c_str());
}

napi_value callOperator(napi_env env, napi_callback_info info) {
  napi_value values[kMaxArguments];
  size_t count = kMaxArguments;
  void* data = nullptr;
  napi_get_cb_info(env, info, &count, values, nullptr, &data);
  OperatorEntry& entry = *static_cast<OperatorEntry*>(data);
  if (count > kMaxArguments) count = kMaxArguments;
  try {
    entry.state.deletePendingReferences();
    const size_t expected = entry.arguments.size();
    if (count > expected) {
      napi_valuetype type;
      napi_typeof(env, values[expected], &type);
      if (type != napi_undefined) {
        throw Failure("INVALID_ARGUMENT", "takes " + std::to_string(expected) + " arguments, got " +
                                              std::to_string(count) + ".");
      }
    }
    torch::jit::Stack stack;
    stack.reserve(expected);
    napi_value undefined = nullptr;
    for (size_t i = 0; i < expected; i++) {
      if (i >= count && undefined == nullptr) napi_get_undefined(env, &undefined);
      stack.push_back(entry.arguments[i].read(entry.state, i < count ? values[i] : undefined));
    }
    entry.handle.callBoxed(&stack);
    if (stack.empty()) return nullptr;
    if (entry.numReturns == 1) return toJs(entry.state, stack[0], entry.name.c_str());
    napi_value result;
    napi_create_array_with_length(env, stack.size(), &result);
    for (size_t i = 0; i < stack.size(); i++) {
      napi_set_element(env, result, i, toJs(entry.state, stack[i], entry.name.c_str()));
    }
    return result;
  } catch (...) {
    throwOperatorError(entry, values, count < entry.arguments.size() ? count : entry.arguments.size());
    return nullptr;
  }
}

// One letter per result, so that the caller knows which numbers are handles: T tensor, L tensors, V any other value.
std::string resultKinds(const c10::FunctionSchema& schema) {
  std::string kinds;
  for (const c10::Argument& result : schema.returns()) {
    const c10::Type& type = *result.type();
    const bool isList = type.kind() == c10::TypeKind::ListType;
    const c10::TypeKind kind = isList ? type.containedType(0)->kind() : type.kind();
    const bool isTensor = kind == c10::TypeKind::TensorType ||
                          (kind == c10::TypeKind::OptionalType && !isList &&
                           type.containedType(0)->kind() == c10::TypeKind::TensorType);
    kinds += !isTensor ? 'V' : isList ? 'L' : 'T';
  }
  return kinds;
}

// operator(name): {call, results}, or null where this libtorch does not have it.
napi_value findOperator(Arguments& args) {
  const std::string name = args.string(0, "name");
  const auto handle = c10::Dispatcher::singleton().findSchema(parseName(name));
  if (!handle.has_value()) return toJsNull(args.state);
  State& state = args.state;
  state.operators.push_back(std::make_unique<OperatorEntry>(state, *handle, name));
  napi_value function;
  check(state.env,
        napi_create_function(state.env, name.c_str(), name.size(), callOperator, state.operators.back().get(),
                             &function),
        "create a function");
  napi_value result;
  napi_create_object(state.env, &result);
  setProperty(state, result, "call", function);
  setProperty(state, result, "results", toJs(state, resultKinds(handle->schema())));
  setProperty(state, result, "numArguments", toJs(state, static_cast<double>(handle->schema().arguments().size())));
  return result;
}

// Every schema of this libtorch, as text, in no order.
napi_value listSchemas(Arguments& args) {
  std::vector<std::string> schemas;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto handle = dispatcher.findSchema(name);
    if (!handle.has_value()) continue;  // registered without a schema
    std::ostringstream text;
    text << handle->schema();
    schemas.push_back(text.str());
  }
  napi_value result;
  napi_create_array_with_length(args.state.env, schemas.size(), &result);
  for (size_t i = 0; i < schemas.size(); i++) {
    napi_set_element(args.state.env, result, i, toJs(args.state, schemas[i]));
  }
  return result;
}

}  // namespace

OperatorEntry::OperatorEntry(State& state, c10::OperatorHandle handle, std::string name)
    : state(state), handle(handle), name(std::move(name)) {
  const c10::FunctionSchema& schema = handle.schema();
  for (const c10::Argument& argument : schema.arguments()) arguments.emplace_back(argument);
  numReturns = schema.returns().size();
}

std::vector<Export> operatorExports() { return {{"operator", findOperator}, {"listSchemas", listSchemas}}; }

}  // namespace reroll
