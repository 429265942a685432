// What a tensor is (shape, dtype, device) and its values as typed arrays.
#include <ATen/Parallel.h>
#include <torch/csrc/api/include/torch/version.h>

#include <cstring>

#include "convert.h"
#include "napi_call.h"

namespace reroll {

namespace {

napi_value shape(Arguments& args) { return toJs(args.state, args.tensor(0, "tensor").sizes()); }

napi_value strides(Arguments& args) { return toJs(args.state, args.tensor(0, "tensor").strides()); }

napi_value dtype(Arguments& args) {
  return toJs(args.state, std::string(scalarTypeName(args.tensor(0, "tensor").scalar_type())));
}

napi_value device(Arguments& args) { return toJs(args.state, args.tensor(0, "tensor").device().str()); }

napi_value numel(Arguments& args) { return toJs(args.state, static_cast<double>(args.tensor(0, "tensor").numel())); }

// Another handle for the same values, outside any graph.
napi_value alias(Arguments& args) { return toJs(args.state, args.tensor(0, "tensor").detach()); }

napi_value isContiguous(Arguments& args) { return toJsBoolean(args.state, args.tensor(0, "tensor").is_contiguous()); }

// isAligned(tensor, bytes): whether its first element stands at a multiple of so many bytes.
napi_value isAligned(Arguments& args) {
  const auto address = reinterpret_cast<uintptr_t>(args.tensor(0, "tensor").data_ptr());
  return toJsBoolean(args.state, address % static_cast<uintptr_t>(args.integer(1, "bytes")) == 0);
}

// A number that is equal for tensors that share memory.
napi_value storageAddress(Arguments& args) {
  const at::Tensor& tensor = args.tensor(0, "tensor");
  return toJs(args.state, static_cast<double>(reinterpret_cast<uintptr_t>(tensor.storage().unsafeGetStorageImpl())));
}

napi_value describe(Arguments& args) { return toJs(args.state, describeTensor(args.tensor(0, "tensor"))); }

// Whether an array of this type holds values of a dtype bit for bit: see arrayFor in dtype.ts.
bool holds(napi_typedarray_type array, at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kComplexFloat:
      return array == napi_float32_array;
    case at::kDouble:
    case at::kComplexDouble:
      return array == napi_float64_array;
    case at::kBFloat16:
    case at::kHalf:
      return array == napi_uint16_array;
    case at::kLong:
      return array == napi_bigint64_array;
    case at::kInt:
      return array == napi_int32_array;
    case at::kShort:
      return array == napi_int16_array || array == napi_uint16_array;
    case at::kChar:
      return array == napi_int8_array;
    case at::kByte:
    case at::kBool:
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    case at::kFloat8_e4m3fn:
#endif
      return array == napi_uint8_array;
    default:
      return false;
  }
}

void expectHolds(const TypedArrayView& view, at::ScalarType type) {
  if (holds(view.type, type)) return;
  throw Failure("INVALID_ARGUMENT",
                std::string("a ") + view.typeName() + " does not hold values of " + scalarTypeName(type) + ".");
}

// Bytes that are no bool would be read as anything, so they become true.
void copyFromArray(const at::Tensor& tensor, const TypedArrayView& view) {
  if (view.byteLength == 0) return;
  if (tensor.scalar_type() != at::kBool) {
    std::memcpy(tensor.data_ptr(), view.data, view.byteLength);
    return;
  }
  const uint8_t* source = static_cast<const uint8_t*>(view.data);
  bool* target = tensor.data_ptr<bool>();
  for (size_t i = 0; i < view.byteLength; i++) target[i] = source[i] != 0;
}

// fromTypedArray(array, dtype, shape): one copy, from the array's memory into a new CPU tensor.
napi_value fromTypedArray(Arguments& args) {
  const at::ScalarType type = parseScalarType(args.string(1, "dtype"));
  const std::vector<int64_t> sizes = args.integers(2, "shape");
  // Read last: a getter in the shape could detach the array's memory.
  const TypedArrayView view = args.typedArray(0, "data");
  expectHolds(view, type);
  int64_t numel = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || (size > 0 && numel > INT64_MAX / size)) {
      throw Failure("SHAPE_MISMATCH", "shape " + describeValue(args.state, args.value(2)) + " is not possible.");
    }
    numel *= size;
  }
  const size_t elementSize = c10::elementSize(type);
  if (view.byteLength / elementSize != static_cast<size_t>(numel) || view.byteLength % elementSize != 0) {
    throw Failure("SHAPE_MISMATCH", "shape " + describeValue(args.state, args.value(2)) + " has " +
                                        std::to_string(numel) + " values of " + scalarTypeName(type) +
                                        ", the data has " + std::to_string(view.byteLength / elementSize) + ".");
  }
  at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(type));
  copyFromArray(tensor, view);
  return toJs(args.state, tensor);
}

void expectFits(const at::Tensor& tensor, const TypedArrayView& view) {
  expectHolds(view, tensor.scalar_type());
  if (view.byteLength == tensor.nbytes()) return;
  throw Failure("SHAPE_MISMATCH", "the typed array has " + std::to_string(view.byteLength) + " bytes, the tensor " +
                                      describeTensor(tensor) + " has " + std::to_string(tensor.nbytes()) + ".");
}

// Whether the values are in memory, in order. A conjugated, negated or zero tensor can be a mark on other memory or
// none.
bool isPlainMemory(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !tensor.is_nested() && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor();
}

// readInto(tensor, array): the values of a tensor, one copy where they are on the CPU and in order. Waits for the
// device.
napi_value readInto(Arguments& args) {
  at::Tensor tensor = args.tensor(0, "tensor").detach();
  if (!tensor.device().is_cpu()) tensor = tensor.cpu();
  if (tensor._is_zerotensor()) tensor = at::zeros(tensor.sizes(), tensor.options());
  if (!isPlainMemory(tensor) && tensor.layout() == at::kStrided) tensor = tensor.clone(at::MemoryFormat::Contiguous);
  if (!isPlainMemory(tensor)) {
    throw Failure("INVALID_ARGUMENT", "only a strided CPU tensor can be read, got " + describeTensor(tensor) + ".");
  }
  const TypedArrayView view = args.typedArray(1, "target");
  expectFits(tensor, view);
  if (view.byteLength > 0) std::memcpy(view.data, tensor.data_ptr(), view.byteLength);
  return nullptr;
}

// writeFrom(tensor, array): overwrites a contiguous CPU tensor, one copy, without autograd.
napi_value writeFrom(Arguments& args) {
  const at::Tensor& tensor = args.tensor(0, "tensor");
  const TypedArrayView view = args.typedArray(1, "source");
  if (!isPlainMemory(tensor)) {
    throw Failure("INVALID_ARGUMENT",
                  "only a contiguous CPU tensor can be written, got " + describeTensor(tensor) + ".");
  }
  expectFits(tensor, view);
  copyFromArray(tensor, view);
  return nullptr;
}

// The value of a tensor with one element.
napi_value item(Arguments& args) {
  const at::Tensor& tensor = args.tensor(0, "tensor");
  if (tensor.numel() != 1) {
    throw Failure("SHAPE_MISMATCH", "item() needs a tensor with one element, got " + describeTensor(tensor) + ".");
  }
  const at::Scalar value = tensor.item();
  if (value.isBoolean()) return toJs(args.state, value.toBool() ? 1.0 : 0.0);
  if (value.isIntegral(false)) return toJs(args.state, static_cast<double>(value.toLong()));
  if (value.isComplex()) throw Failure("UNSUPPORTED", "item() cannot return a complex number; use view_as_real.");
  return toJs(args.state, value.toDouble());
}

napi_value setNumThreads(Arguments& args) {
  const int64_t count = args.integer(0, "count");
  if (count < 1 || count > 4096) throw Failure("INVALID_ARGUMENT", "the number of threads must be 1 to 4096.");
  // A thread takes the number that was set last, by whichever thread, when it first asks: have it ask before it gets
  // its own.
  at::get_num_threads();
  at::set_num_threads(static_cast<int>(count));
  return nullptr;
}

napi_value numThreads(Arguments& args) { return toJs(args.state, static_cast<double>(at::get_num_threads())); }

}  // namespace

std::vector<Export> tensorDataExports() {
  return {{"shape", shape},
          {"strides", strides},
          {"dtype", dtype},
          {"device", device},
          {"numel", numel},
          {"alias", alias},
          {"isContiguous", isContiguous},
          {"isAligned", isAligned},
          {"storageAddress", storageAddress},
          {"describe", describe},
          {"fromTypedArray", fromTypedArray},
          {"readInto", readInto},
          {"writeFrom", writeFrom},
          {"item", item},
          {"setNumThreads", setNumThreads},
          {"numThreads", numThreads}};
}

}  // namespace reroll
