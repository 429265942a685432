#include "state.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <unordered_map>

#include "napi_call.h"
#include "operators.h"

namespace reroll {

namespace {

std::mutex linksMutex;
std::unordered_map<State*, std::shared_ptr<StateLink>> links;

napi_value enterScope(Arguments& args) {
  args.state.enterScope();
  return nullptr;
}

napi_value leaveScope(Arguments& args) {
  args.state.leaveScope(args.numbers(0, "kept"));
  return nullptr;
}

napi_value release(Arguments& args) {
  args.state.releaseTensor(args.number(0, "tensor"));
  return nullptr;
}

// What collecting this tensor would free. A view holds a storage that its base was counted for already; a sparse or
// opaque tensor does not say what it holds.
int64_t collectableBytes(const at::Tensor& tensor) {
  if (tensor.is_view() || !tensor.has_storage()) return 0;
  return static_cast<int64_t>(std::min(tensor.nbytes(), tensor.storage().nbytes()));
}

// Tells the garbage collector what it would free by collecting this tensor. For tensors that no scope owns. Whether
// this is news: false for a tensor that was disposed or is known already.
napi_value track(Arguments& args) {
  TensorEntry* entry = args.state.findTensor(args.number(0, "tensor"));
  if (entry == nullptr || entry->isTracked) return toJsBoolean(args.state, false);
  const int64_t bytes = collectableBytes(entry->tensor);
  int64_t total;
  napi_adjust_external_memory(args.state.env, bytes, &total);
  entry->trackedBytes = bytes;
  entry->isTracked = true;
  return toJsBoolean(args.state, true);
}

// Takes a tensor out of every scope.
napi_value pin(Arguments& args) {
  TensorEntry* entry = args.state.findTensor(args.number(0, "tensor"));
  if (entry != nullptr) entry->isPinned = true;
  return nullptr;
}

napi_value isLive(Arguments& args) {
  return toJsBoolean(args.state, args.state.findTensor(args.number(0, "tensor")) != nullptr);
}

napi_value liveTensors(Arguments& args) { return toJs(args.state, static_cast<double>(args.state.liveTensors())); }

napi_value releaseObject(Arguments& args) {
  args.state.releaseObject(args.number(0, "object"));
  return nullptr;
}

napi_value setErrorFactory(Arguments& args) {
  State& state = args.state;
  if (state.errorFactory != nullptr) napi_delete_reference(state.env, state.errorFactory);
  check(state.env, napi_create_reference(state.env, args.value(0), 1, &state.errorFactory), "keep the error factory");
  return nullptr;
}

}  // namespace

State::State(napi_env env) : env(env), thread_(std::this_thread::get_id()) {
  // Messages leave out the C++ stack trace, so it is not made: that would take a millisecond per error.
  static std::once_flag once;
  std::call_once(once, [] { c10::SetStackTraceFetcher([] { return std::string(); }); });
  std::lock_guard<std::mutex> lock(linksMutex);
  auto link = std::make_shared<StateLink>();
  link->state = this;
  links[this] = std::move(link);
}

State::~State() {
  std::shared_ptr<StateLink> link;
  {
    std::lock_guard<std::mutex> lock(linksMutex);
    link = links[this];
    links.erase(this);
  }
  std::lock_guard<std::mutex> lock(link->mutex);
  link->state = nullptr;
}

std::shared_ptr<StateLink> linkTo(State& state) {
  std::lock_guard<std::mutex> lock(linksMutex);
  return links.at(&state);
}

State& State::of(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return *static_cast<State*>(data);
}

double State::insertTensor(at::Tensor tensor) {
  const double handle = tensors_.insert(TensorEntry{std::move(tensor)});
  if (!scopeStarts_.empty()) scopeLog_.push_back(handle);
  return handle;
}

const at::Tensor& State::tensor(double handle, const char* role) {
  TensorEntry* entry = tensors_.find(handle);
  if (entry != nullptr) return entry->tensor;
  if (isHandleOf(kTensorFraction, handle)) {
    throw Failure("DISPOSED_TENSOR", std::string("argument '") + role +
                                         "' is a disposed tensor. It was released by dispose() or by the end of the "
                                         "scope that made it; return it from the scope to keep it.");
  }
  const std::string got = isHandleOf(kObjectFraction, handle) ? describeObject(handle) : "a number";
  throw Failure("INVALID_ARGUMENT", std::string("argument '") + role + "' must be a Tensor, got " + got + ".");
}

void State::releaseTensor(double handle) {
  TensorEntry removed;
  if (!tensors_.remove(handle, &removed)) return;
  if (removed.trackedBytes != 0) {
    int64_t total;
    napi_adjust_external_memory(env, -removed.trackedBytes, &total);
  }
}

void State::enterScope() { scopeStarts_.push_back(scopeLog_.size()); }

void State::leaveScope(const std::vector<double>& kept) {
  if (scopeStarts_.empty()) throw Failure("INTERNAL", "there is no scope to leave.");
  const size_t start = scopeStarts_.back();
  scopeStarts_.pop_back();
  for (const double handle : kept) {
    TensorEntry* entry = tensors_.find(handle);
    if (entry != nullptr) entry->isKept = true;
  }
  const bool hasParent = !scopeStarts_.empty();
  size_t end = start;
  // Releasing a tensor can run a destructor that comes back here, so the log is read by index.
  for (size_t i = start; i < scopeLog_.size(); i++) {
    const double handle = scopeLog_[i];
    TensorEntry* entry = tensors_.find(handle);
    if (entry == nullptr || entry->isPinned) continue;
    if (!entry->isKept) {
      releaseTensor(handle);
    } else if (hasParent) {
      scopeLog_[end++] = handle;
    }
  }
  scopeLog_.resize(end);
  for (const double handle : kept) {
    TensorEntry* entry = tensors_.find(handle);
    if (entry != nullptr) entry->isKept = false;
  }
}

std::shared_ptr<NativeObject> State::object(double handle, const char* kind) {
  std::shared_ptr<NativeObject>* found = objects_.find(handle);
  if (found == nullptr && isHandleOf(kObjectFraction, handle)) {
    throw Failure("DISPOSED_OBJECT", std::string("this ") + kind + " was disposed.");
  }
  if (found == nullptr) {
    const char* got = isHandleOf(kTensorFraction, handle) ? "a Tensor" : "a number";
    throw Failure("INVALID_ARGUMENT", std::string("expected a ") + kind + ", got " + got + ".");
  }
  if (std::string((*found)->kind()) != kind) {
    throw Failure("INVALID_ARGUMENT", std::string("expected a ") + kind + ", got a " + (*found)->kind() + ".");
  }
  return *found;
}

std::string State::describeObject(double handle) {
  std::shared_ptr<NativeObject>* found = objects_.find(handle);
  return found == nullptr ? "a disposed object" : std::string("a ") + (*found)->kind();
}

void State::releaseObject(double handle) {
  std::shared_ptr<NativeObject> removed;
  objects_.remove(handle, &removed);
}

void State::deleteReferenceLater(napi_ref reference) {
  std::lock_guard<std::mutex> lock(pendingMutex_);
  pendingReferences_.push_back(reference);
  hasPendingReferences_ = true;
}

void State::deletePendingReferences() {
  if (!hasPendingReferences_.load(std::memory_order_relaxed)) return;
  std::vector<napi_ref> references;
  {
    std::lock_guard<std::mutex> lock(pendingMutex_);
    references.swap(pendingReferences_);
    hasPendingReferences_ = false;
  }
  for (napi_ref reference : references) napi_delete_reference(env, reference);
}

std::vector<Export> stateExports() {
  return {{"enterScope", enterScope},
          {"leaveScope", leaveScope},
          {"release", release},
          {"track", track},
          {"pin", pin},
          {"isLive", isLive},
          {"liveTensors", liveTensors},
          {"releaseObject", releaseObject},
          {"setErrorFactory", setErrorFactory}};
}

}  // namespace reroll
