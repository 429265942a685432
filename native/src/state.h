// What one JavaScript thread owns: its tensors, scopes, modes and references. Instance data of the N-API environment,
// so that every worker thread has its own and everything is released when the thread ends.
#pragma once

#include <node_api.h>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "handle_table.h"

namespace reroll {

struct OperatorEntry;
class Arguments;

using NativeFunction = napi_value (*)(Arguments&);

// A function that JavaScript sees under this name.
struct Export {
  const char* name;
  NativeFunction function;
};

// Objects other than tensors that JavaScript holds by handle: generators, mapped files, CUDA streams, process groups.
struct NativeObject {
  virtual ~NativeObject() = default;
  virtual const char* kind() const = 0;
};

struct TensorEntry {
  at::Tensor tensor;
  int64_t trackedBytes = 0;  // what the garbage collector was told about this tensor
  bool isTracked = false;    // left to the garbage collector
  bool isKept = false;       // survives the scope that is being left
  bool isPinned = false;     // belongs to no scope
};

class State {
 public:
  explicit State(napi_env env);
  ~State();
  static State& of(napi_env env);

  // Wraps a tensor; it belongs to the innermost scope. An undefined tensor has no handle: see toJs.
  double insertTensor(at::Tensor tensor);
  // Throws Failure for a number that is no live tensor; `role` names the argument in the message.
  const at::Tensor& tensor(double handle, const char* role);
  TensorEntry* findTensor(double handle) { return tensors_.find(handle); }
  void releaseTensor(double handle);
  size_t liveTensors() const { return tensors_.live(); }

  void enterScope();
  // Releases what the scope made, except the kept handles, which move to the enclosing scope.
  void leaveScope(const std::vector<double>& kept);
  size_t scopeDepth() const { return scopeStarts_.size(); }

  double insertObject(std::shared_ptr<NativeObject> object) { return objects_.insert(std::move(object)); }
  std::shared_ptr<NativeObject> object(double handle, const char* kind);
  std::string describeObject(double handle);
  void releaseObject(double handle);

  // Drops a reference from any thread; the deletion happens on this state's own thread.
  void deleteReferenceLater(napi_ref reference);
  void deletePendingReferences();
  bool isOwnThread() const { return std::this_thread::get_id() == thread_; }

  const napi_env env;
  napi_ref errorFactory = nullptr;
  std::deque<Export> exports;  // a deque: JavaScript functions point at its elements
  std::vector<std::unique_ptr<OperatorEntry>> operators;
  std::vector<c10::IValue> spareStack;
  std::vector<std::unique_ptr<c10::InferenceMode>> inferenceModes;

 private:
  HandleTable<TensorEntry> tensors_{kTensorFraction};
  HandleTable<std::shared_ptr<NativeObject>> objects_{kObjectFraction};
  std::vector<double> scopeLog_;
  std::vector<size_t> scopeStarts_;
  const std::thread::id thread_;
  std::atomic<bool> hasPendingReferences_{false};
  std::mutex pendingMutex_;
  std::vector<napi_ref> pendingReferences_;
};

// The state of an environment outlives neither its thread nor its users: nodes of the autograd graph hold this.
struct StateLink {
  std::mutex mutex;
  State* state = nullptr;  // null once the thread has ended
};
std::shared_ptr<StateLink> linkTo(State& state);

}  // namespace reroll
