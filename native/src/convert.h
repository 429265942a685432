// JavaScript values to operator arguments and back, driven by the operator's schema.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>

#include "napi_call.h"

namespace reroll {

// How to read one argument. Prepared once per operator, so that a call does not look at the schema again.
enum class ArgumentKind {
  Tensor,
  TensorList,
  OptionalTensorList,
  Int,
  Float,
  Bool,
  Scalar,
  String,
  ScalarType,
  Layout,
  MemoryFormat,
  Device,
  Generator,
  IntList,
  FloatList,
  BoolList,
  ScalarList,
  StringList,
  Opaque,
  Unsupported,
};

// A value that JavaScript cannot look into and only passes on, such as packed weights of a quantized layer.
struct OpaqueValue : NativeObject {
  explicit OpaqueValue(c10::IValue value) : value(std::move(value)) {}
  const char* kind() const override { return "Value"; }
  c10::IValue value;
};

struct ArgumentConverter {
  ArgumentConverter(const c10::Argument& argument);
  // `value` may be undefined: then the default stands, or the call fails.
  c10::IValue read(State& state, napi_value value) const;

  std::string name;
  std::string typeName;
  ArgumentKind kind;
  bool isOptional = false;
  bool hasDefault = false;
  bool isFreeInteger = false;  // not a size, count or position, so any 64-bit integer is fine
  int32_t fixedLength = 0;     // int[2] also takes one number
  c10::IValue defaultValue;

 private:
  void expectLength(size_t length) const;
};

napi_value toJs(State& state, const c10::IValue& value);

const char* scalarTypeName(at::ScalarType type);
at::ScalarType parseScalarType(const std::string& name);

}  // namespace reroll
