#include "convert.h"

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "random.h"

namespace reroll {

namespace {

struct NamedScalarType {
  const char* name;
  at::ScalarType type;
};

constexpr NamedScalarType kScalarTypes[] = {
    {"float32", at::kFloat},
    {"float64", at::kDouble},
    {"bfloat16", at::kBFloat16},
    {"float16", at::kHalf},
    {"int64", at::kLong},
    {"int32", at::kInt},
    {"int16", at::kShort},
    {"int8", at::kChar},
    {"uint8", at::kByte},
    {"bool", at::kBool},
    {"complex64", at::kComplexFloat},
    {"complex128", at::kComplexDouble},
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    {"float8_e4m3fn", at::kFloat8_e4m3fn},
#endif
};

// Kernels multiply sizes, counts and positions without looking for overflow. No memory has room for more than this.
constexpr int64_t kMaxCount = int64_t{1} << 48;

// Integers that are values, or the open end of a range, and not a size, count or position.
constexpr const char* kFreeIntegers[] = {"low",  "high",         "from",       "to",  "start",     "end",
                                         "seed", "dropout_seed", "fill_value", "val", "context_id"};

ArgumentKind listKind(const c10::Type& element) {
  switch (element.kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::TensorList;
    case c10::TypeKind::OptionalType:
      return element.containedType(0)->kind() == c10::TypeKind::TensorType ? ArgumentKind::OptionalTensorList
                                                                           : ArgumentKind::Unsupported;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgumentKind::IntList;
    case c10::TypeKind::FloatType:
      return ArgumentKind::FloatList;
    case c10::TypeKind::BoolType:
      return ArgumentKind::BoolList;
    case c10::TypeKind::NumberType:
      return ArgumentKind::ScalarList;
    case c10::TypeKind::StringType:
      return ArgumentKind::StringList;
    default:
      return ArgumentKind::Unsupported;
  }
}

ArgumentKind kindOf(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::Tensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgumentKind::Int;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return ArgumentKind::Float;
    case c10::TypeKind::BoolType:
      return ArgumentKind::Bool;
    case c10::TypeKind::NumberType:
      return ArgumentKind::Scalar;
    case c10::TypeKind::StringType:
      return ArgumentKind::String;
    case c10::TypeKind::ScalarTypeType:
      return ArgumentKind::ScalarType;
    case c10::TypeKind::LayoutType:
      return ArgumentKind::Layout;
    case c10::TypeKind::MemoryFormatType:
      return ArgumentKind::MemoryFormat;
    case c10::TypeKind::DeviceObjType:
      return ArgumentKind::Device;
    case c10::TypeKind::GeneratorType:
      return ArgumentKind::Generator;
    case c10::TypeKind::ListType:
      return listKind(*type.containedType(0));
    case c10::TypeKind::ClassType:
    case c10::TypeKind::AnyType:
      return ArgumentKind::Opaque;
    default:
      return ArgumentKind::Unsupported;
  }
}

// Reads one value of one kind; false where the JavaScript value does not fit. A tensor is a number to JavaScript, and
// fits where a tensor is expected only.
class Reader {
 public:
  Reader(State& state, const char* role, bool isFreeInteger)
      : state_(state), env_(state.env), role_(role), isFree_(isFreeInteger) {}

  bool tensor(napi_value value, at::Tensor* out) {
    double handle;
    if (napi_get_value_double(env_, value, &handle) != napi_ok) return false;
    *out = state_.tensor(handle, role_);
    return true;
  }

  bool integer(napi_value value, int64_t* out) {
    if (!anyInteger(value, out)) return false;
    if (isFree_ || (*out >= -kMaxCount && *out <= kMaxCount)) return true;
    throw Failure("INVALID_ARGUMENT", std::string("argument '") + role_ + "' must be an integer of at most 2^48, got " +
                                          std::to_string(*out) + ".");
  }

  bool anyInteger(napi_value value, int64_t* out) {
    double number;
    if (napi_get_value_double(env_, value, &number) == napi_ok) {
      if (!(std::fabs(number) <= 9223372036854774784.0) || number != std::floor(number)) return false;
      *out = static_cast<int64_t>(number);
      return true;
    }
    bool isExact;
    return napi_get_value_bigint_int64(env_, value, out, &isExact) == napi_ok && isExact;
  }

  bool number(napi_value value, double* out) {
    return napi_get_value_double(env_, value, out) == napi_ok && !looksLikeHandle(*out);
  }

  bool boolean(napi_value value, bool* out) { return napi_get_value_bool(env_, value, out) == napi_ok; }

  bool string(napi_value value, std::string* out) {
    size_t length = 0;
    if (napi_get_value_string_utf8(env_, value, nullptr, 0, &length) != napi_ok) return false;
    out->resize(length);
    return napi_get_value_string_utf8(env_, value, &(*out)[0], length + 1, &length) == napi_ok;
  }

  // JavaScript has one number type: integral numbers become integer scalars, as in Python source text. -0 is one too,
  // or adding a negated offset of 0 would turn integers into floats.
  bool scalar(napi_value value, at::Scalar* out) {
    double number;
    if (napi_get_value_double(env_, value, &number) == napi_ok) {
      if (looksLikeHandle(number)) return false;
      const bool isIntegral = std::fabs(number) <= 9007199254740992.0 && number == std::floor(number);
      *out = isIntegral ? at::Scalar(static_cast<int64_t>(number)) : at::Scalar(number);
      return true;
    }
    bool flag;
    if (napi_get_value_bool(env_, value, &flag) == napi_ok) {
      *out = at::Scalar(flag);
      return true;
    }
    int64_t big;
    bool isExact;
    if (napi_get_value_bigint_int64(env_, value, &big, &isExact) != napi_ok || !isExact) return false;
    *out = at::Scalar(big);
    return true;
  }

  template <typename Element, typename ReadElement>
  bool list(napi_value value, c10::List<Element>* out, ReadElement readElement) {
    // An array without elements can have any length: do not reserve memory for what is not there.
    constexpr uint32_t kMaxLength = 1 << 24;
    uint32_t length;
    if (napi_get_array_length(env_, value, &length) != napi_ok || length > kMaxLength) return false;
    out->reserve(length);
    for (uint32_t i = 0; i < length; i++) {
      napi_value element;
      check(env_, napi_get_element(env_, value, i, &element), "read an array");
      Element item{};
      if (!readElement(element, &item)) return false;
      out->push_back(std::move(item));
    }
    return true;
  }

 private:
  State& state_;
  napi_env env_;
  const char* role_;
  const bool isFree_;
};

c10::IValue parseLayout(const std::string& name) {
  if (name == "strided") return static_cast<int64_t>(c10::kStrided);
  if (name == "sparse") return static_cast<int64_t>(c10::kSparse);
  if (name == "sparse_csr") return static_cast<int64_t>(c10::kSparseCsr);
  throw Failure("INVALID_ARGUMENT", "unknown layout \"" + name + "\". Allowed: strided, sparse, sparse_csr.");
}

c10::IValue parseMemoryFormat(const std::string& name) {
  if (name == "contiguous") return static_cast<int64_t>(c10::MemoryFormat::Contiguous);
  if (name == "preserve") return static_cast<int64_t>(c10::MemoryFormat::Preserve);
  if (name == "channels_last") return static_cast<int64_t>(c10::MemoryFormat::ChannelsLast);
  throw Failure("INVALID_ARGUMENT",
                "unknown memory format \"" + name + "\". Allowed: contiguous, preserve, channels_last.");
}

}  // namespace

const char* scalarTypeName(at::ScalarType type) {
  for (const NamedScalarType& item : kScalarTypes) {
    if (item.type == type) return item.name;
  }
  return c10::toString(type);
}

at::ScalarType parseScalarType(const std::string& name) {
  std::string known;
  for (const NamedScalarType& item : kScalarTypes) {
    if (name == item.name) return item.type;
    known += (known.empty() ? "" : ", ") + std::string(item.name);
  }
  throw Failure("INVALID_ARGUMENT", "unknown dtype \"" + name + "\". Allowed: " + known + ".");
}

ArgumentConverter::ArgumentConverter(const c10::Argument& argument) : name(argument.name()) {
  c10::TypePtr type = argument.real_type();
  typeName = type->str();
  if (type->kind() == c10::TypeKind::OptionalType) {
    isOptional = true;
    type = type->containedType(0);
  }
  kind = kindOf(*type);
  if (argument.N().has_value()) fixedLength = *argument.N();
  isFreeInteger = std::find(std::begin(kFreeIntegers), std::end(kFreeIntegers), name) != std::end(kFreeIntegers);
  if (argument.default_value().has_value()) {
    hasDefault = true;
    defaultValue = *argument.default_value();
  }
}

// int[1] takes any number of integers. Where more are declared, kernels read that many without looking: an empty list
// is fine only where it is the default.
void ArgumentConverter::expectLength(size_t length) const {
  const size_t expected = static_cast<size_t>(fixedLength);
  if (expected <= 1 || length == expected || length == 1) return;
  if (length == 0 && defaultValue.isIntList() && defaultValue.toIntList().empty()) return;
  throw Failure("INVALID_ARGUMENT", "argument '" + name + "' takes " + std::to_string(expected) + " integers, got " +
                                        std::to_string(length) + ".");
}

c10::IValue ArgumentConverter::read(State& state, napi_value value) const {
  napi_env env = state.env;
  double handle;
  // By far the most common case, and one call into the engine less.
  if (kind == ArgumentKind::Tensor && napi_get_value_double(env, value, &handle) == napi_ok) {
    return state.tensor(handle, name.c_str());
  }
  napi_valuetype type;
  napi_typeof(env, value, &type);
  if (type == napi_undefined || type == napi_null) {
    // null says "none" where none is possible; undefined leaves the argument out.
    if (type == napi_null && isOptional) return c10::IValue();
    if (hasDefault) return defaultValue;
    if (isOptional) return c10::IValue();
    throw Failure("INVALID_ARGUMENT", "argument '" + name + "' is missing. It must be of type " + typeName + ".");
  }
  Reader reader(state, name.c_str(), isFreeInteger);
  switch (kind) {
    case ArgumentKind::Tensor:
      break;
    case ArgumentKind::TensorList: {
      c10::List<at::Tensor> tensors;
      if (reader.list(value, &tensors, [&](napi_value v, at::Tensor* out) { return reader.tensor(v, out); })) {
        return tensors;
      }
      break;
    }
    case ArgumentKind::OptionalTensorList: {
      c10::List<c10::optional<at::Tensor>> tensors;
      const bool ok = reader.list(value, &tensors, [&](napi_value v, c10::optional<at::Tensor>* out) {
        napi_valuetype elementType;
        napi_typeof(env, v, &elementType);
        if (elementType == napi_null || elementType == napi_undefined) return true;
        at::Tensor tensor;
        if (!reader.tensor(v, &tensor)) return false;
        *out = tensor;
        return true;
      });
      if (ok) return tensors;
      break;
    }
    case ArgumentKind::Int: {
      int64_t number;
      if (reader.integer(value, &number)) return number;
      break;
    }
    case ArgumentKind::Float: {
      double number;
      if (reader.number(value, &number)) return number;
      break;
    }
    case ArgumentKind::Bool: {
      bool flag;
      if (reader.boolean(value, &flag)) return flag;
      break;
    }
    case ArgumentKind::Scalar: {
      at::Scalar scalar;
      if (reader.scalar(value, &scalar)) return scalar;
      break;
    }
    case ArgumentKind::String: {
      std::string text;
      if (reader.string(value, &text)) return text;
      break;
    }
    case ArgumentKind::ScalarType: {
      std::string text;
      if (reader.string(value, &text)) return static_cast<int64_t>(parseScalarType(text));
      break;
    }
    case ArgumentKind::Layout: {
      std::string text;
      if (reader.string(value, &text)) return parseLayout(text);
      break;
    }
    case ArgumentKind::MemoryFormat: {
      std::string text;
      if (reader.string(value, &text)) return parseMemoryFormat(text);
      break;
    }
    case ArgumentKind::Device: {
      std::string text;
      if (reader.string(value, &text)) return c10::Device(text);
      break;
    }
    case ArgumentKind::Generator: {
      if (napi_get_value_double(env, value, &handle) == napi_ok) return generatorOf(state, handle);
      break;
    }
    case ArgumentKind::IntList: {
      c10::List<int64_t> numbers;
      int64_t single;
      if (fixedLength > 0 && reader.integer(value, &single)) {
        numbers.resize(fixedLength, single);
        return numbers;
      }
      if (!reader.list(value, &numbers, [&](napi_value v, int64_t* out) { return reader.integer(v, out); })) break;
      expectLength(numbers.size());
      if (numbers.size() == 1 && fixedLength > 1) numbers.resize(fixedLength, numbers.get(0));
      return numbers;
    }
    case ArgumentKind::FloatList: {
      c10::List<double> numbers;
      if (reader.list(value, &numbers, [&](napi_value v, double* out) { return reader.number(v, out); })) {
        return numbers;
      }
      break;
    }
    case ArgumentKind::BoolList: {
      c10::List<bool> flags;
      if (reader.list(value, &flags, [&](napi_value v, bool* out) { return reader.boolean(v, out); })) return flags;
      break;
    }
    case ArgumentKind::ScalarList: {
      c10::List<at::Scalar> scalars;
      if (reader.list(value, &scalars, [&](napi_value v, at::Scalar* out) { return reader.scalar(v, out); })) {
        return scalars;
      }
      break;
    }
    case ArgumentKind::StringList: {
      c10::List<std::string> strings;
      if (reader.list(value, &strings, [&](napi_value v, std::string* out) { return reader.string(v, out); })) {
        return strings;
      }
      break;
    }
    case ArgumentKind::Opaque: {
      if (napi_get_value_double(env, value, &handle) != napi_ok) break;
      return static_cast<OpaqueValue&>(*state.object(handle, "Value")).value;
    }
    case ArgumentKind::Unsupported:
      throw Failure("UNSUPPORTED", "argument '" + name + "' has type " + typeName + ", which JavaScript cannot pass.");
  }
  throw Failure("INVALID_ARGUMENT",
                "argument '" + name + "' must be of type " + typeName + ", got " + describeValue(state, value) + ".");
}

napi_value toJs(State& state, const c10::IValue& value) {
  napi_env env = state.env;
  napi_value result;
  if (value.isTensor()) return toJs(state, value.toTensor());
  if (value.isNone()) return toJsNull(state);
  if (value.isInt()) {
    const int64_t number = value.toInt();
    if (number >= -9007199254740992 && number <= 9007199254740992) return toJs(state, static_cast<double>(number));
    napi_create_bigint_int64(env, number, &result);
    return result;
  }
  if (value.isDouble()) return toJs(state, value.toDouble());
  if (value.isBool()) return toJsBoolean(state, value.toBool());
  if (value.isString()) return toJs(state, value.toStringRef());
  if (value.isDevice()) return toJs(state, value.toDevice().str());
  if (value.isTensorList()) return toJs(state, value.toTensorVector());
  if (value.isIntList()) return toJs(state, at::IntArrayRef(value.toIntVector()));
  if (value.isList()) {
    const auto list = value.toListRef();
    napi_create_array_with_length(env, list.size(), &result);
    for (size_t i = 0; i < list.size(); i++) napi_set_element(env, result, i, toJs(state, list[i]));
    return result;
  }
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    napi_create_array_with_length(env, elements.size(), &result);
    for (size_t i = 0; i < elements.size(); i++) napi_set_element(env, result, i, toJs(state, elements[i]));
    return result;
  }
  if (value.isObject()) return toJs(state, state.insertObject(std::make_shared<OpaqueValue>(value)));
  throw Failure("UNSUPPORTED", "the result has type " + value.tagKind() + ", which JavaScript cannot hold.");
}

}  // namespace reroll
