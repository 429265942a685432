#include "operators.h"

#include <cstring>
#include <sstream>

namespace reroll {

namespace {

constexpr size_t kMaxArguments = 64;
constexpr size_t kFewArguments = 8;  // reading arguments costs time for each that could be there

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

// Operators whose quotient of integers is an integer.
bool dividesIntegers(const std::string& name) {
  const auto startsWith = [&](const char* stem) { return name.compare(0, std::strlen(stem), stem) == 0; };
  if (startsWith("aten::floor_divide") || startsWith("aten::remainder") || startsWith("aten::fmod")) return true;
  return startsWith("aten::div") && name.find("_mode") != std::string::npos;
}

// Whether an operand, a number or a tensor in memory, is `value` somewhere.
bool contains(const c10::IValue& operand, int64_t value) {
  if (operand.isInt()) return operand.toInt() == value;
  if (!operand.isTensor() || !operand.toTensor().defined()) return false;
  const at::Tensor& tensor = operand.toTensor();
  if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided) return false;
  const at::ScalarType type = tensor.scalar_type();
  // A narrow operand is promoted before the division, so -1 counts in every signed type that holds it.
  const bool canHold = type == at::kLong || (type == at::kInt && value >= INT32_MIN) ||
                       (type == at::kShort && value >= INT16_MIN) || (type == at::kChar && value >= INT8_MIN);
  return canHold && tensor.eq(value).any().item<bool>();
}

// The lowest integer divided by -1 has no result, and the processor ends the process that tries.
void expectQuotient(const torch::jit::Stack& operands) {
  const bool isExact = operands.size() > 2 && operands[2].isNone();  // no rounding mode: a division of floats
  if (isExact || !contains(operands[1], -1)) return;
  if (!contains(operands[0], INT64_MIN) && !contains(operands[0], INT32_MIN)) return;
  throw Failure("INVALID_ARGUMENT", "the lowest integer cannot be divided by -1.");
}

// A stack with the memory of an earlier one. A call inside a call finds none and makes its own.
struct ReusedStack {
  explicit ReusedStack(State& state) : state(state), stack(std::move(state.spareStack)) {}
  ~ReusedStack() {
    stack.clear();
    state.spareStack = std::move(stack);
  }
  State& state;
  torch::jit::Stack stack;
};

napi_value readResults(OperatorEntry& entry, const torch::jit::Stack& stack) {
  if (stack.empty()) return nullptr;
  if (entry.returnsDtype) {
    return toJs(entry.state, std::string(scalarTypeName(static_cast<at::ScalarType>(stack[0].toInt()))));
  }
  if (entry.numReturns == 1) return toJs(entry.state, stack[0]);
  napi_value result;
  napi_create_array_with_length(entry.state.env, stack.size(), &result);
  for (size_t i = 0; i < stack.size(); i++) {
    napi_set_element(entry.state.env, result, i, toJs(entry.state, stack[i]));
  }
  return result;
}

napi_value callOperator(napi_env env, napi_callback_info info) {
  napi_value values[kMaxArguments];
  size_t count = kFewArguments;
  void* data = nullptr;
  napi_get_cb_info(env, info, &count, values, nullptr, &data);
  if (count > kFewArguments) {
    count = kMaxArguments;
    napi_get_cb_info(env, info, &count, values, nullptr, nullptr);
    if (count > kMaxArguments) count = kMaxArguments;
  }
  OperatorEntry& entry = *static_cast<OperatorEntry*>(data);
  try {
    entry.state.deletePendingReferences();
    if (entry.isVariadic) throw Failure("UNSUPPORTED", "takes any number of values, which JavaScript cannot pass.");
    const size_t expected = entry.arguments.size();
    if (count > expected) {
      napi_valuetype type;
      napi_typeof(env, values[expected], &type);
      if (type != napi_undefined) {
        throw Failure("INVALID_ARGUMENT",
                      "takes " + std::to_string(expected) + " arguments, got " + std::to_string(count) + ".");
      }
    }
    ReusedStack reused(entry.state);
    torch::jit::Stack& stack = reused.stack;
    stack.reserve(expected);
    napi_value undefined = nullptr;
    for (size_t i = 0; i < expected; i++) {
      if (i >= count && undefined == nullptr) napi_get_undefined(env, &undefined);
      stack.push_back(entry.arguments[i].read(entry.state, i < count ? values[i] : undefined));
    }
    if (entry.dividesIntegers) expectQuotient(stack);
    entry.handle.callBoxed(&stack);
    return readResults(entry, stack);
  } catch (...) {
    throwOperatorError(entry, values, count < entry.arguments.size() ? count : entry.arguments.size());
    return nullptr;
  }
}

// One letter per result, so that the caller knows which numbers are handles: T tensor, L tensors, O an object, V any
// other value.
std::string resultKinds(const c10::FunctionSchema& schema) {
  std::string kinds;
  for (const c10::Argument& result : schema.returns()) {
    const c10::Type& type = *result.type();
    const bool isList = type.kind() == c10::TypeKind::ListType;
    const c10::TypeKind kind = isList ? type.containedType(0)->kind() : type.kind();
    const bool isTensor =
        kind == c10::TypeKind::TensorType ||
        (kind == c10::TypeKind::OptionalType && !isList && type.containedType(0)->kind() == c10::TypeKind::TensorType);
    const bool isObject = kind == c10::TypeKind::ClassType && !isList;
    kinds += isObject ? 'O' : !isTensor ? 'V' : isList ? 'L' : 'T';
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
  check(
      state.env,
      napi_create_function(state.env, name.c_str(), name.size(), callOperator, state.operators.back().get(), &function),
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
  returnsDtype = numReturns == 1 && schema.returns()[0].real_type()->kind() == c10::TypeKind::ScalarTypeType;
  isVariadic = schema.is_vararg() || schema.is_varret();
  dividesIntegers = reroll::dividesIntegers(this->name);
}

std::vector<Export> operatorExports() { return {{"operator", findOperator}, {"listSchemas", listSchemas}}; }

}  // namespace reroll
