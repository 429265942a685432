// Handing a tensor to another thread of the process, without a copy.
//
// sendTensor(tensor) leaves a reference at the counter and returns its number, which travels in a message;
// receiveTensor(number) picks it up, once. What is never picked up is released by discardParcel.
#include <mutex>
#include <unordered_map>

#include "napi_call.h"

namespace reroll {

namespace {

std::mutex parcelsMutex;
// Never destroyed: at exit, what the tensors need may be gone before them.
std::unordered_map<int64_t, at::Tensor>& parcels = *new std::unordered_map<int64_t, at::Tensor>();
int64_t nextParcel = 1;

at::Tensor take(int64_t number) {
  std::lock_guard<std::mutex> lock(parcelsMutex);
  const auto found = parcels.find(number);
  if (found == parcels.end()) {
    throw Failure("UNKNOWN_PARCEL", "there is no tensor number " + std::to_string(number) +
                                        " to receive. A sent tensor can be received once.");
  }
  at::Tensor tensor = std::move(found->second);
  parcels.erase(found);
  return tensor;
}

napi_value sendTensor(Arguments& args) {
  // An alias outside the graph: the autograd graph belongs to the thread that recorded it.
  const at::Tensor tensor = args.tensor(0, "tensor").detach();
  std::lock_guard<std::mutex> lock(parcelsMutex);
  parcels[nextParcel] = tensor;
  return toJs(args.state, static_cast<double>(nextParcel++));
}

napi_value receiveTensor(Arguments& args) { return toJs(args.state, take(args.integer(0, "number"))); }

napi_value discardParcel(Arguments& args) {
  take(args.integer(0, "number"));
  return nullptr;
}

napi_value waitingParcels(Arguments& args) {
  std::lock_guard<std::mutex> lock(parcelsMutex);
  return toJs(args.state, static_cast<double>(parcels.size()));
}

}  // namespace

std::vector<Export> parcelExports() {
  return {{"sendTensor", sendTensor},
          {"receiveTensor", receiveTensor},
          {"discardParcel", discardParcel},
          {"waitingParcels", waitingParcels}};
}

}  // namespace reroll
