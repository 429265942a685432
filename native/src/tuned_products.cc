// Large products of 16-bit matrices on a GPU, each by the algorithm that was fastest when its shape was first met.
//
// cuBLAS proposes several algorithms for a product and takes the one that it expects to be fastest; for the shapes of a
// training step another one of them takes 5 to 20 % less time in every second case. Here they are tried, on the very
// matrices of the first such product, beside what libtorch does by itself, and the fastest does it from then on. All of
// them add up in float32.
//
// They are timed without a pause in between. A chip that multiplies without one is slowed down by the power it may
// draw, and some algorithms that are ahead on a rested chip are then 10 % behind.
//
// libtorch's own operators are the ones that do it: mm and addmm on a GPU pass through here once tuneProducts was
// called, forward and backward passes alike. What is too small for it to matter, recorded into a graph before its shape
// was met, or not laid out as cuBLASLt wants it, goes on to libtorch's kernel.
#include "napi_call.h"

#ifdef REROLL_CUDA
#include <torch/csrc/api/include/torch/version.h>
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 10)
#define REROLL_TUNES_PRODUCTS
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/addmm_cuda_dispatch.h>
#include <ATen/ops/mm_cuda_dispatch.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <cublasLt.h>
#include <dlfcn.h>
#include <torch/library.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#endif
#endif

namespace reroll {

#ifndef REROLL_TUNES_PRODUCTS

std::vector<Export> tunedProductExports() {
  return {{"cudaTuneProducts", [](Arguments& args) { return toJsBoolean(args.state, false); }}};
}

#else

namespace {

// A product of fewer operations takes less than 30 microseconds.
constexpr double kMinOperations = 2e10;
constexpr int64_t kMinTokens = 2048;
// What cuBLASLt takes for granted where it is not told otherwise, in bytes.
constexpr uintptr_t kAlignment = 256;
constexpr size_t kWorkspaceBytes = 32 << 20;
constexpr int kMaxCandidates = 8;
// How long an algorithm computes without a pause before it is another one's turn, in milliseconds, and how often then.
constexpr float kTurnMs = 1;
constexpr int kMaxRepeats = 50;
// Odd, for the medians.
constexpr int kRounds = 3;
// What takes longer than the fastest by more than this in the first round is left out of the others.
constexpr float kClearlyBehind = 1.06f;
// Another algorithm than libtorch's has to be faster by more than medians of the same rounds differ.
constexpr float kWorthwhile = 0.99f;

// The library that libtorch itself multiplies with, which is loaded where libtorch has CUDA: linking to it would tie
// the addon to one version.
struct Library {
  // clang-format off
#define REROLL_FUNCTIONS(_)                                                                                \
  _(cublasLtMatmul) _(cublasLtMatmulAlgoGetHeuristic) _(cublasLtMatmulDescCreate) _(cublasLtMatmulDescDestroy) \
  _(cublasLtMatmulDescSetAttribute) _(cublasLtMatmulPreferenceCreate) _(cublasLtMatmulPreferenceDestroy)   \
  _(cublasLtMatmulPreferenceSetAttribute) _(cublasLtMatrixLayoutCreate) _(cublasLtMatrixLayoutDestroy)     \
  _(cublasLtGetVersion)
// clang-format on
#define REROLL_DECLARE(name) decltype(&::name) name;
  REROLL_FUNCTIONS(REROLL_DECLARE)

  Library() {
#define REROLL_FIND(name)                                              \
  name = reinterpret_cast<decltype(name)>(dlsym(RTLD_DEFAULT, #name)); \
  if (name == nullptr) isUsable = false;
    REROLL_FUNCTIONS(REROLL_FIND)
    // Structures may differ between major versions.
    if (isUsable) isUsable = cublasLtGetVersion() / 10000 == CUBLAS_VER_MAJOR;
  }

  bool isUsable = true;
};

const Library& lt() {
  static const Library library;
  return library;
}

void check(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Failure("CUDA_KERNEL",
                  std::string("cuBLASLt could not ") + doing + ": status " + std::to_string(status) + ".");
}

bool isAligned(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0;
}

// A matrix as BLAS sees it, column by column: the memory of a row-major one is its transpose.
struct Operand {
  const at::Tensor& values;
  bool isTransposed;
  int64_t leadingSize;

  static bool fits(const at::Tensor& matrix) {
    if (!isAligned(matrix)) return false;
    const int64_t rows = matrix.size(0), columns = matrix.size(1), down = matrix.stride(0), across = matrix.stride(1);
    const int64_t leading = across == 1 ? down : down == 1 ? across : 0;
    return leading >= (across == 1 ? columns : rows) && leading % 8 == 0;
  }

  // Only for matrices that fit.
  explicit Operand(const at::Tensor& matrix)
      : values(matrix),
        isTransposed(matrix.stride(1) != 1),
        leadingSize(isTransposed ? matrix.stride(1) : matrix.stride(0)) {}
};

// out = left right (+ bias, a value for each column; or + out).
struct Product {
  const at::Tensor& out;
  Operand left, right;
  const at::Tensor* bias;
  bool isAdded;

  int64_t rows() const { return out.size(0); }
  int64_t columns() const { return out.size(1); }
  int64_t inner() const { return left.values.size(1); }
};

// Whether a product is to be computed here: it is large, cuBLASLt can read what it multiplies, and kernels need not be
// exact. Engines are in inference mode: what they draw is not to depend on what was faster.
bool isOurs(const at::Tensor& left, const at::Tensor& right) {
  if (c10::InferenceMode::is_enabled()) return false;
  if (left.dim() != 2 || right.dim() != 2 || left.size(1) != right.size(0)) return false;
  const int64_t rows = left.size(0), inner = left.size(1), columns = right.size(1);
  // The gradient of a weight is a sum over tokens; in other products every row is one.
  const int64_t numTokens = left.stride(1) == 1 ? rows : inner;
  if (numTokens < kMinTokens || 2.0 * rows * columns * inner < kMinOperations) return false;
  const auto type = left.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && right.scalar_type() == type &&
         left.device() == right.device() && Operand::fits(left) && Operand::fits(right) &&
         at::globalContext().allowBF16ReductionCuBLAS() !=
             at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK;
}

bool isOutputFit(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right, at::ScalarType type) {
  return out.dim() == 2 && out.size(0) == left.size(0) && out.size(1) == right.size(1) && out.stride(1) == 1 &&
         out.stride(0) >= out.size(1) && out.stride(0) % 8 == 0 && out.scalar_type() == type &&
         out.device() == left.device() && isAligned(out);
}

// The eighth part of a power of two that a size is in: rollouts have another number of tokens every time.
int64_t roughly(int64_t size) {
  int64_t step = 1;
  while (step * 16 <= size) step *= 2;
  return (size + step - 1) / step * step;
}

using Key = std::array<int64_t, 9>;

Key keyOf(const Product& product) {
  return {roughly(product.rows()),
          roughly(product.columns()),
          roughly(product.inner()),
          product.left.isTransposed,
          product.right.isTransposed,
          static_cast<int64_t>(product.left.values.scalar_type()),
          static_cast<int64_t>(product.out.scalar_type()),
          product.bias != nullptr,
          product.out.device().index()};
}

template <typename Handle>
struct Owned {
  Owned(Handle handle, cublasStatus_t (*destroy)(Handle)) : handle(handle), destroy(destroy) {}
  Owned(const Owned&) = delete;
  ~Owned() { destroy(handle); }
  Handle handle;
  cublasStatus_t (*destroy)(Handle);
};

using Layout = Owned<cublasLtMatrixLayout_t>;

Layout layoutOf(at::ScalarType type, int64_t rows, int64_t columns, int64_t leading) {
  const auto element = type == at::kFloat ? CUDA_R_32F : type == at::kHalf ? CUDA_R_16F : CUDA_R_16BF;
  cublasLtMatrixLayout_t layout;
  check(lt().cublasLtMatrixLayoutCreate(&layout, element, rows, columns, leading), "describe a matrix");
  return {layout, lt().cublasLtMatrixLayoutDestroy};
}

Layout layoutOf(const Operand& operand) {
  const at::Tensor& values = operand.values;
  const bool isTransposed = operand.isTransposed;
  return layoutOf(values.scalar_type(), values.size(isTransposed ? 0 : 1), values.size(isTransposed ? 1 : 0),
                  operand.leadingSize);
}

// A product as cuBLASLt is told of it. The transpose of the result is computed, right' left', whose memory is that of
// the result row by row.
class Call {
 public:
  explicit Call(const Product& product)
      : product_(product),
        first_(layoutOf(product.right)),
        second_(layoutOf(product.left)),
        out_(layoutOf(product.out.scalar_type(), product.columns(), product.rows(), product.out.stride(0))),
        description_(describe(product), lt().cublasLtMatmulDescDestroy),
        workspace_(at::empty({static_cast<int64_t>(kWorkspaceBytes)}, product.out.options().dtype(at::kByte))) {}

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm) const {
    const float one = 1, before = product_.isAdded ? 1 : 0;
    void* out = product_.out.mutable_data_ptr();
    return lt().cublasLtMatmul(handle(), description_.handle, &one, product_.right.values.const_data_ptr(),
                               first_.handle, product_.left.values.const_data_ptr(), second_.handle, &before, out,
                               out_.handle, out, out_.handle, &algorithm, workspace_.mutable_data_ptr(),
                               kWorkspaceBytes, at::cuda::getCurrentCUDAStream());
  }

  // What cuBLASLt proposes, the best first as it believes.
  std::vector<cublasLtMatmulAlgo_t> candidates() const {
    cublasLtMatmulPreference_t created;
    check(lt().cublasLtMatmulPreferenceCreate(&created), "make preferences");
    const Owned<cublasLtMatmulPreference_t> preference(created, lt().cublasLtMatmulPreferenceDestroy);
    const size_t bytes = kWorkspaceBytes;
    check(lt().cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                    sizeof(bytes)),
          "take a workspace");
    // Parts of a sum are added in float32, never in 16 bits.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check(lt().cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                    sizeof(reductions)),
          "take float32 sums");
    std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> proposed;
    int count = 0;
    const auto status =
        lt().cublasLtMatmulAlgoGetHeuristic(handle(), description_.handle, first_.handle, second_.handle, out_.handle,
                                            out_.handle, created, kMaxCandidates, proposed.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++) algorithms.push_back(proposed[i].algo);
    return algorithms;
  }

 private:
  static cublasLtHandle_t handle() { return at::cuda::getCurrentCUDABlasLtHandle(); }

  static cublasLtMatmulDesc_t describe(const Product& product) {
    cublasLtMatmulDesc_t description;
    check(lt().cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      check(lt().cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)), "describe a product");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.right.isTransposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.left.isTransposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (product.bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias->const_data_ptr());
    }
    return description;
  }

  const Product& product_;
  Layout first_, second_, out_;
  Owned<cublasLtMatmulDesc_t> description_;
  at::Tensor workspace_;
};

// Computes a product. False where an algorithm does not take it.
using Way = std::function<bool()>;

// How long each of these takes, in milliseconds: one after the other, each `repeats` times, without a pause.
std::vector<float> timesOf(const std::vector<Way>& ways, const std::vector<size_t>& order, int repeats) {
  // Launches get ahead of the GPU meanwhile, so that they are not what is measured.
  ways[order[0]]();
  std::vector<at::cuda::CUDAEvent> marks;
  for (size_t i = 0; i <= order.size(); i++) marks.emplace_back(cudaEventDefault);
  marks[0].record();
  for (size_t i = 0; i < order.size(); i++) {
    for (int repeat = 0; repeat < repeats; repeat++) ways[order[i]]();
    marks[i + 1].record();
  }
  marks.back().synchronize();
  std::vector<float> times(ways.size(), 1e30f);
  for (size_t i = 0; i < order.size(); i++) times[order[i]] = marks[i].elapsed_time(marks[i + 1]) / repeats;
  return times;
}

// The fastest of these, or the first one where none is clearly faster. Leaves the result of one of them where it
// belongs.
size_t fastestOf(const std::vector<Way>& ways) {
  std::vector<size_t> order;
  // The first run loads the kernels.
  for (size_t i = 0; i < ways.size(); i++)
    if (ways[i]()) order.push_back(i);
  const float once = timesOf(ways, {0}, 1)[0];
  const int repeats = std::clamp(static_cast<int>(kTurnMs / once), 2, kMaxRepeats);
  std::vector<std::vector<float> > rounds(ways.size());
  for (int round = 0; round < kRounds; round++) {
    const std::vector<float> times = timesOf(ways, order, repeats);
    for (const size_t i : order) rounds[i].push_back(times[i]);
    if (round == 0) {
      const float limit = kClearlyBehind * *std::min_element(times.begin(), times.end());
      const auto isBehind = [&](size_t i) { return i > 0 && times[i] > limit; };
      order.erase(std::remove_if(order.begin(), order.end(), isBehind), order.end());
    }
    // What follows a hungrier neighbor may be slower for it.
    std::reverse(order.begin(), order.end());
  }
  const auto medianOf = [&](size_t i) {
    std::sort(rounds[i].begin(), rounds[i].end());
    return rounds[i][kRounds / 2];
  };
  const float usual = medianOf(0);
  const auto fastest =
      std::min_element(order.begin(), order.end(), [&](size_t i, size_t j) { return medianOf(i) < medianOf(j); });
  return medianOf(*fastest) < kWorthwhile * usual ? *fastest : 0;
}

// What was found, for all threads of the process; nothing where libtorch is to do it.
using Choice = std::optional<cublasLtMatmulAlgo_t>;
std::mutex foundMutex;
std::map<Key, Choice> found;

Choice choiceFor(const Call& call, const Way& usual) {
  const auto candidates = call.candidates();
  std::vector<Way> ways = {usual};
  for (const auto& algorithm : candidates)
    ways.push_back([&call, &algorithm] { return call.run(algorithm) == CUBLAS_STATUS_SUCCESS; });
  const size_t fastest = fastestOf(ways);
  return fastest == 0 ? Choice() : candidates[fastest - 1];
}

bool isRecording() { return at::cuda::currentStreamCaptureStatusMayInitCtx() != at::cuda::CaptureStatus::None; }

// Whether the product was computed here. `usual` has libtorch compute it, into the same memory.
bool multiply(const Product& product, const std::function<void()>& usual) {
  const c10::cuda::CUDAGuard guard(product.out.device());
  const Key key = keyOf(product);
  const std::lock_guard<std::mutex> lock(foundMutex);
  auto known = found.find(key);
  // To try is to compute several times, which a graph would repeat, and which sums would not survive.
  if (known == found.end() && (isRecording() || product.isAdded)) return false;
  if (known != found.end() && !known->second) return false;
  const Call call(product);
  if (known == found.end()) {
    const Way asUsual = [&] { return usual(), true; };
    known = found.emplace(key, choiceFor(call, asUsual)).first;
  }
  return known->second && call.run(*known->second) == CUBLAS_STATUS_SUCCESS;
}

// Whether the product is to be computed here, and was.
bool multiplyInto(at::Tensor& out, const at::Tensor& left, const at::Tensor& right, at::ScalarType type,
                  const std::function<void()>& usual, bool isAdded = false) {
  return isOurs(left, right) && isOutputFit(out, left, right, type) &&
         multiply({out, Operand(left), Operand(right), nullptr, isAdded}, usual);
}

at::Tensor emptyProduct(const at::Tensor& left, const at::Tensor& right) {
  return at::empty({left.size(0), right.size(1)}, left.options());
}

at::Tensor mm(const at::Tensor& left, const at::Tensor& right) {
  if (!isOurs(left, right)) return at::cuda::mm(left, right);
  at::Tensor out = emptyProduct(left, right);
  const auto usual = [&] { at::cuda::mm_outf(left, right, out); };
  if (!multiplyInto(out, left, right, left.scalar_type(), usual)) usual();
  return out;
}

at::Tensor& mmOut(const at::Tensor& left, const at::Tensor& right, at::Tensor& out) {
  const auto usual = [&] { at::cuda::mm_outf(left, right, out); };
  if (!multiplyInto(out, left, right, left.scalar_type(), usual)) usual();
  return out;
}

at::Tensor mmWide(const at::Tensor& left, const at::Tensor& right, at::ScalarType type) {
  if (type != at::kFloat || !isOurs(left, right)) return at::cuda::mm(left, right, type);
  at::Tensor out = at::empty({left.size(0), right.size(1)}, left.options().dtype(type));
  const auto usual = [&] { at::cuda::mm_outf(left, right, type, out); };
  if (!multiplyInto(out, left, right, type, usual)) usual();
  return out;
}

at::Tensor& mmWideOut(const at::Tensor& left, const at::Tensor& right, at::ScalarType type, at::Tensor& out) {
  const auto usual = [&] { at::cuda::mm_outf(left, right, type, out); };
  if (type != at::kFloat || !multiplyInto(out, left, right, type, usual)) usual();
  return out;
}

at::Tensor addmm(const at::Tensor& added, const at::Tensor& left, const at::Tensor& right, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  const bool isBias = added.dim() == 1 && added.size(0) == right.size(1) && added.is_contiguous() &&
                      added.scalar_type() == left.scalar_type() && added.device() == left.device() && beta.equal(1) &&
                      alpha.equal(1) && isAligned(added);
  if (!isBias || !isOurs(left, right)) return at::cuda::addmm(added, left, right, beta, alpha);
  at::Tensor out = emptyProduct(left, right);
  const auto usual = [&] { at::cuda::addmm_outf(added, left, right, beta, alpha, out); };
  const bool isDone = isOutputFit(out, left, right, left.scalar_type()) &&
                      multiply({out, Operand(left), Operand(right), &added, false}, usual);
  if (!isDone) usual();
  return out;
}

at::Tensor& addmmWideOut(const at::Tensor& added, const at::Tensor& left, const at::Tensor& right, at::ScalarType type,
                         const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const auto usual = [&] { at::cuda::addmm_outf(added, left, right, type, beta, alpha, out); };
  const bool isSum = added.is_same(out) && beta.equal(1) && alpha.equal(1) && type == at::kFloat;
  if (!isSum || !multiplyInto(out, left, right, type, usual, true)) usual();
  return out;
}

struct Silent : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// tuneProducts(): from now on, in all threads of the process and for as long as it lives. Whether it does.
napi_value tuneProducts(Arguments& args) {
  static const bool isTuning = [] {
    if (!lt().isUsable) return false;
    // libtorch warns that its own kernels are replaced, which is the point.
    Silent silent;
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    library.impl("mm", TORCH_FN(mm));
    library.impl("mm.out", TORCH_FN(mmOut));
    library.impl("mm.dtype", TORCH_FN(mmWide));
    library.impl("mm.dtype_out", TORCH_FN(mmWideOut));
    library.impl("addmm", TORCH_FN(addmm));
    library.impl("addmm.dtype_out", TORCH_FN(addmmWideOut));
    return true;
  }();
  return toJsBoolean(args.state, isTuning);
}

}  // namespace

std::vector<Export> tunedProductExports() { return {{"cudaTuneProducts", tuneProducts}}; }

#endif

}  // namespace reroll
