// From a JavaScript call to a C++ function and back: argument checks, values, and errors that say what went wrong.
#pragma once

#include <node_api.h>

#include <ATen/ATen.h>

#include <exception>
#include <string>
#include <vector>

#include "state.h"

namespace reroll {

// An error that the caller can act on. `code` becomes RerollError.code.
struct Failure : std::exception {
  Failure(std::string code, std::string message) : code(std::move(code)), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string code;
  std::string message;
};

// A JavaScript exception that travels through C++ frames; it is pending in `env` again once the entry returns.
struct JsException : std::exception {
  JsException(napi_env env, napi_value value);
  const char* what() const noexcept override { return "a JavaScript exception"; }
  napi_ref reference = nullptr;
};

void check(napi_env env, napi_status status, const char* doing);
// Sets the pending JavaScript exception for the C++ exception that is being handled.
void throwToJs(State& state, const char* function);

struct TypedArrayView {
  const char* typeName() const;
  napi_typedarray_type type;
  void* data;
  size_t byteLength;
};

// The arguments of one call.
class Arguments {
 public:
  Arguments(State& state, napi_callback_info info, const char* function);
  size_t size() const { return count_; }
  napi_value value(size_t i) const { return i < count_ ? values_[i] : undefined_; }
  bool isMissing(size_t i) const;
  double number(size_t i, const char* name) const;
  int64_t integer(size_t i, const char* name) const;
  bool boolean(size_t i, const char* name) const;
  std::string string(size_t i, const char* name) const;
  const at::Tensor& tensor(size_t i, const char* name) const;
  std::vector<at::Tensor> tensors(size_t i, const char* name) const;  // null entries are undefined tensors
  std::vector<double> numbers(size_t i, const char* name) const;
  std::vector<int64_t> integers(size_t i, const char* name) const;
  TypedArrayView typedArray(size_t i, const char* name) const;

  State& state;
  const char* function;

 private:
  static constexpr size_t kMax = 16;
  Failure wrong(size_t i, const char* name, const char* expected) const;
  napi_value values_[kMax];
  napi_value undefined_;
  size_t count_ = kMax;
};

napi_value toJs(State& state, double value);
napi_value toJs(State& state, const std::string& value);
napi_value toJsBoolean(State& state, bool value);
napi_value toJsNull(State& state);
napi_value toJs(State& state, const at::Tensor& tensor);  // a handle; null for an undefined tensor
napi_value toJs(State& state, const std::vector<at::Tensor>& tensors);
napi_value toJs(State& state, at::IntArrayRef values);
void setProperty(State& state, napi_value object, const char* name, napi_value value);

// For messages: "float32[2, 3]", "4", "\"x\"". Leaves no exception pending, whatever the value does when it is looked
// at.
std::string describeValue(State& state, napi_value value);
std::string describeTensor(const at::Tensor& tensor);

void exportFunctions(State& state, napi_value exports, const std::vector<Export>& functions);

// Each file offers its functions; addon.cc joins them.
std::vector<Export> allocatorExports();
std::vector<Export> autogradExports();
std::vector<Export> cudaExports();
std::vector<Export> cudaKernelExports();
std::vector<Export> customFunctionExports();
std::vector<Export> distributedExports();
std::vector<Export> mappedFileExports();
std::vector<Export> operatorExports();
std::vector<Export> pagedAttentionExports();
std::vector<Export> parcelExports();
std::vector<Export> randomExports();
std::vector<Export> rowPassExports();
std::vector<Export> sampleRowExports();
std::vector<Export> stateExports();
std::vector<Export> steadyProductExports();
std::vector<Export> tensorDataExports();
std::vector<Export> tunedProductExports();

}  // namespace reroll
