#include "napi_call.h"

#include <cmath>
#include <iterator>
#include <sstream>

#include "convert.h"

namespace reroll {

namespace {

// In the order of napi_typedarray_type.
constexpr struct {
  const char* name;
  size_t elementSize;
} kTypedArrays[] = {{"Int8Array", 1},    {"Uint8Array", 1},    {"Uint8ClampedArray", 1}, {"Int16Array", 2},
                    {"Uint16Array", 2},  {"Int32Array", 4},    {"Uint32Array", 4},       {"Float32Array", 4},
                    {"Float64Array", 8}, {"BigInt64Array", 8}, {"BigUint64Array", 8}};

std::string stringOf(napi_env env, napi_value value) {
  size_t length = 0;
  check(env, napi_get_value_string_utf8(env, value, nullptr, 0, &length), "read a string");
  std::string text(length, '\0');
  check(env, napi_get_value_string_utf8(env, value, &text[0], length + 1, &length), "read a string");
  return text;
}

// A libtorch message without the C++ stack trace, and without its advice on builds of libtorch.
std::string firstParagraph(const std::string& text) {
  std::string message = text;
  for (const char* rest : {"\nException raised from", " This could be because the operator doesn't exist for this"}) {
    const size_t start = message.find(rest);
    if (start != std::string::npos) message.resize(start);
  }
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return message;
}

void throwError(State& state, const std::string& code, const std::string& message) {
  napi_env env = state.env;
  if (state.errorFactory != nullptr) {
    napi_value factory, receiver, error;
    napi_value args[2] = {toJs(state, code), toJs(state, message)};
    napi_get_reference_value(env, state.errorFactory, &factory);
    napi_get_undefined(env, &receiver);
    if (napi_call_function(env, receiver, factory, 2, args, &error) == napi_ok) {
      napi_throw(env, error);
      return;
    }
  }
  napi_throw_error(env, code.c_str(), message.c_str());
}

std::string describeNumber(State& state, double number) {
  TensorEntry* entry = state.findTensor(number);
  if (entry != nullptr) return describeTensor(entry->tensor);
  if (isHandleOf(kTensorFraction, number)) return "a disposed tensor";
  if (isHandleOf(kObjectFraction, number)) return state.describeObject(number);
  std::ostringstream text;
  text.precision(15);
  text << number;
  return text.str();
}

std::string describeNested(State& state, napi_value value, int depth);

std::string describeArray(State& state, napi_value value, int depth) {
  constexpr uint32_t kMaxShown = 6;
  uint32_t length = 0;
  napi_get_array_length(state.env, value, &length);
  std::string text = "[";
  for (uint32_t i = 0; i < length && i < kMaxShown; i++) {
    napi_value element;
    if (napi_get_element(state.env, value, i, &element) != napi_ok) {
      // An element behind a getter that throws. The error that is being described matters more.
      napi_value exception;
      napi_get_and_clear_last_exception(state.env, &exception);
      return "an array";
    }
    text += (i == 0 ? "" : ", ") + describeNested(state, element, depth - 1);
  }
  return text + (length > kMaxShown ? ", ...]" : "]");
}

std::string describeNested(State& state, napi_value value, int depth) {
  napi_valuetype type;
  napi_typeof(state.env, value, &type);
  switch (type) {
    case napi_undefined:
      return "nothing";
    case napi_null:
      return "null";
    case napi_boolean: {
      bool flag;
      napi_get_value_bool(state.env, value, &flag);
      return flag ? "true" : "false";
    }
    case napi_number: {
      double number;
      napi_get_value_double(state.env, value, &number);
      return describeNumber(state, number);
    }
    case napi_string:
      return "\"" + stringOf(state.env, value).substr(0, 80) + "\"";
    case napi_bigint:
      return "a bigint";
    case napi_function:
      return "a function";
    default:
      break;
  }
  bool isArray = false;
  napi_is_array(state.env, value, &isArray);
  if (!isArray) return "an object";
  return depth == 0 ? "[...]" : describeArray(state, value, depth);
}

napi_value callEntry(napi_env env, napi_callback_info info) {
  void* data = nullptr;
  napi_get_cb_info(env, info, nullptr, nullptr, nullptr, &data);
  const Export* entry = static_cast<Export*>(data);
  State& state = State::of(env);
  try {
    state.deletePendingReferences();
    Arguments args(state, info, entry->name);
    return entry->function(args);
  } catch (...) {
    throwToJs(state, entry->name);
    return nullptr;
  }
}

}  // namespace

void check(napi_env env, napi_status status, const char* doing) {
  if (status == napi_ok) return;
  bool isPending = false;
  napi_is_exception_pending(env, &isPending);
  if (isPending || status == napi_pending_exception) {
    napi_value exception;
    napi_get_and_clear_last_exception(env, &exception);
    throw JsException(env, exception);
  }
  const napi_extended_error_info* info = nullptr;
  napi_get_last_error_info(env, &info);
  const char* reason = info != nullptr && info->error_message != nullptr ? info->error_message : "unknown error";
  throw Failure("INVALID_ARGUMENT", std::string("could not ") + doing + ": " + reason);
}

JsException::JsException(napi_env env, napi_value value) {
  // Any value can be thrown, references hold objects only: wrap it.
  napi_value box;
  napi_create_object(env, &box);
  napi_set_named_property(env, box, "value", value);
  napi_create_reference(env, box, 1, &reference);
}

void throwToJs(State& state, const char* function) {
  napi_env env = state.env;
  try {
    throw;
  } catch (const JsException& exception) {
    napi_value box, value;
    napi_get_reference_value(env, exception.reference, &box);
    napi_get_named_property(env, box, "value", &value);
    state.deleteReferenceLater(exception.reference);
    napi_throw(env, value);
  } catch (const Failure& failure) {
    throwError(state, failure.code, std::string(function) + ": " + failure.message);
  } catch (const c10::OutOfMemoryError& error) {
    throwError(state, "OUT_OF_MEMORY", std::string(function) + ": " + firstParagraph(error.what()));
  } catch (const c10::Error& error) {
    throwError(state, "TORCH", std::string(function) + ": " + firstParagraph(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    throwError(state, "OUT_OF_MEMORY", std::string(function) + ": out of memory");
  } catch (const std::exception& error) {
    throwError(state, "TORCH", std::string(function) + ": " + firstParagraph(error.what()));
  } catch (...) {
    throwError(state, "TORCH", std::string(function) + ": unknown C++ exception");
  }
}

Arguments::Arguments(State& state, napi_callback_info info, const char* function) : state(state), function(function) {
  check(state.env, napi_get_cb_info(state.env, info, &count_, values_, nullptr, nullptr), "read the arguments");
  if (count_ > kMax) count_ = kMax;
  napi_get_undefined(state.env, &undefined_);
}

Failure Arguments::wrong(size_t i, const char* name, const char* expected) const {
  return Failure("INVALID_ARGUMENT", std::string("argument '") + name + "' must be " + expected + ", got " +
                                         describeValue(state, value(i)) + ".");
}

bool Arguments::isMissing(size_t i) const {
  napi_valuetype type;
  napi_typeof(state.env, value(i), &type);
  return type == napi_undefined || type == napi_null;
}

double Arguments::number(size_t i, const char* name) const {
  double result;
  if (napi_get_value_double(state.env, value(i), &result) != napi_ok) throw wrong(i, name, "a number");
  return result;
}

int64_t Arguments::integer(size_t i, const char* name) const {
  const double result = number(i, name);
  if (!(std::fabs(result) <= 9007199254740992.0) || result != std::floor(result)) throw wrong(i, name, "an integer");
  return static_cast<int64_t>(result);
}

bool Arguments::boolean(size_t i, const char* name) const {
  bool result;
  if (napi_get_value_bool(state.env, value(i), &result) != napi_ok) throw wrong(i, name, "true or false");
  return result;
}

std::string Arguments::string(size_t i, const char* name) const {
  napi_valuetype type;
  napi_typeof(state.env, value(i), &type);
  if (type != napi_string) throw wrong(i, name, "a string");
  return stringOf(state.env, value(i));
}

const at::Tensor& Arguments::tensor(size_t i, const char* name) const {
  double handle;
  if (napi_get_value_double(state.env, value(i), &handle) != napi_ok) throw wrong(i, name, "a Tensor");
  return state.tensor(handle, name);
}

std::vector<at::Tensor> Arguments::tensors(size_t i, const char* name) const {
  std::vector<at::Tensor> result;
  if (isMissing(i)) return result;
  uint32_t length;
  if (napi_get_array_length(state.env, value(i), &length) != napi_ok) throw wrong(i, name, "an array of Tensors");
  result.reserve(length);
  for (uint32_t k = 0; k < length; k++) {
    napi_value element;
    check(state.env, napi_get_element(state.env, value(i), k, &element), "read an array");
    napi_valuetype type;
    napi_typeof(state.env, element, &type);
    double handle;
    if (type == napi_null || type == napi_undefined) {
      result.emplace_back();
    } else if (napi_get_value_double(state.env, element, &handle) == napi_ok) {
      result.push_back(state.tensor(handle, name));
    } else {
      throw wrong(i, name, "an array of Tensors");
    }
  }
  return result;
}

std::vector<double> Arguments::numbers(size_t i, const char* name) const {
  uint32_t length;
  if (napi_get_array_length(state.env, value(i), &length) != napi_ok) throw wrong(i, name, "an array of numbers");
  std::vector<double> result(length);
  for (uint32_t k = 0; k < length; k++) {
    napi_value element;
    check(state.env, napi_get_element(state.env, value(i), k, &element), "read an array");
    if (napi_get_value_double(state.env, element, &result[k]) != napi_ok) throw wrong(i, name, "an array of numbers");
  }
  return result;
}

std::vector<int64_t> Arguments::integers(size_t i, const char* name) const {
  std::vector<int64_t> result;
  for (const double number : numbers(i, name)) {
    if (!(std::fabs(number) <= 9007199254740992.0) || number != std::floor(number)) {
      throw wrong(i, name, "an array of integers");
    }
    result.push_back(static_cast<int64_t>(number));
  }
  return result;
}

TypedArrayView Arguments::typedArray(size_t i, const char* name) const {
  bool isTypedArray = false;
  napi_is_typedarray(state.env, value(i), &isTypedArray);
  if (!isTypedArray) throw wrong(i, name, "a typed array");
  TypedArrayView view{};
  size_t length = 0;
  check(state.env, napi_get_typedarray_info(state.env, value(i), &view.type, &length, &view.data, nullptr, nullptr),
        "read a typed array");
  if (static_cast<size_t>(view.type) >= std::size(kTypedArrays)) throw wrong(i, name, "a typed array that tensors use");
  view.byteLength = length * kTypedArrays[view.type].elementSize;
  return view;
}

const char* TypedArrayView::typeName() const { return kTypedArrays[type].name; }

napi_value toJs(State& state, double value) {
  napi_value result;
  napi_create_double(state.env, value, &result);
  return result;
}

napi_value toJs(State& state, const std::string& value) {
  napi_value result;
  napi_create_string_utf8(state.env, value.data(), value.size(), &result);
  return result;
}

napi_value toJsBoolean(State& state, bool value) {
  napi_value result;
  napi_get_boolean(state.env, value, &result);
  return result;
}

napi_value toJsNull(State& state) {
  napi_value result;
  napi_get_null(state.env, &result);
  return result;
}

napi_value toJs(State& state, const at::Tensor& tensor) {
  return tensor.defined() ? toJs(state, state.insertTensor(tensor)) : toJsNull(state);
}

napi_value toJs(State& state, const std::vector<at::Tensor>& tensors) {
  napi_value result;
  napi_create_array_with_length(state.env, tensors.size(), &result);
  for (size_t i = 0; i < tensors.size(); i++) napi_set_element(state.env, result, i, toJs(state, tensors[i]));
  return result;
}

napi_value toJs(State& state, at::IntArrayRef values) {
  napi_value result;
  napi_create_array_with_length(state.env, values.size(), &result);
  for (size_t i = 0; i < values.size(); i++) {
    napi_set_element(state.env, result, i, toJs(state, static_cast<double>(values[i])));
  }
  return result;
}

void setProperty(State& state, napi_value object, const char* name, napi_value value) {
  napi_set_named_property(state.env, object, name, value);
}

std::string describeTensor(const at::Tensor& tensor) {
  std::ostringstream text;
  text << scalarTypeName(tensor.scalar_type());
  if (tensor.is_nested()) {
    text << "[nested]";  // its sizes differ from row to row
  } else {
    text << tensor.sizes();
  }
  if (tensor.layout() != at::kStrided) text << " " << tensor.layout();
  if (!tensor.device().is_cpu()) text << " on " << tensor.device();
  return text.str();
}

std::string describeValue(State& state, napi_value value) {
  constexpr int kMaxDepth = 3;  // an array can hold itself
  return describeNested(state, value, kMaxDepth);
}

void exportFunctions(State& state, napi_value exports, const std::vector<Export>& functions) {
  for (const Export& item : functions) {
    napi_value function;
    state.exports.push_back(item);
    check(state.env,
          napi_create_function(state.env, item.name, NAPI_AUTO_LENGTH, callEntry, &state.exports.back(), &function),
          "create a function");
    setProperty(state, exports, item.name, function);
  }
}

}  // namespace reroll
