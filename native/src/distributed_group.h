// A process group, and the course of a collective in it.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>

#include "distributed_backend.h"

namespace reroll {

// Where ranks meet. A connection to a TCP store is held by the thread that waits in it, so two groups that are joined
// at the same time would wait for each other: every group gets a connection of its own.
struct StoreObject : NativeObject {
  const char* kind() const override { return "Store"; }
  StoreReference store;
  std::function<StoreReference()> connect;
};

struct Group : NativeObject {
  explicit Group(GroupOptions options) : options(std::move(options)) {}
  ~Group() override;
  const char* kind() const override { return "ProcessGroup"; }
  bool isGloo() const { return options.backend == "gloo"; }
  bool isForeign() const { return !options.prefix.empty(); }
  std::string place() const;  // "rank 0 of 2 in gloo group \"trainers\""

  const GroupOptions options;
  std::shared_ptr<StoreObject> store;  // may serve peers that are still joining
  BackendReference backend;
  std::shared_future<void> lastLaunch;  // of the collective that was called last; of the JavaScript thread only
  std::mutex failureMutex;
  std::string failure;  // why the group is broken; empty while it is whole
};

// Waits for every rank to arrive in the store and connects them. Blocks. Foreign ranks do not say that they arrive:
// they follow c10d alone, and so does a group with them.
void connectGroup(Group& group);

// One call of one rank: what it is called, and its two halves.
struct Collective {
  std::string description;                // "allReduce(sum) of float32[2, 3]": must be equal on all ranks
  bool isPointToPoint = false;            // between two ranks: nothing to compare, no order among the others
  std::function<WorkReference()> launch;  // may be null, or return null, where nothing is to be moved
  std::function<void()> finish;           // after the transfer; may be null
};

// A collective from the call to its end. Made on the JavaScript thread, in calling order; run() may be on another.
//
// Gloo ends the process when ranks disagree about a size, so a Gloo group first compares what the ranks are about to
// do. The transfers start in calling order, each after its own comparison, and then run side by side. NCCL and
// point-to-point calls start at once, on the calling thread and its CUDA stream. In a group with foreign ranks nothing
// is compared, and calls start on their own threads, in order: the first may wait for those ranks to connect.
class Flight {
 public:
  Flight(std::shared_ptr<Group> group, Collective collective);
  void run();

 private:
  bool isCompared() const { return group_->isGloo() && !group_->isForeign() && !collective_.isPointToPoint; }
  bool isDeferred() const { return isCompared() || (group_->isForeign() && !collective_.isPointToPoint); }
  void launch();
  void compareWithPeers();
  void expectWholeGroup();
  Failure breakGroup(const std::exception& error);

  std::shared_ptr<Group> group_;
  Collective collective_;
  WorkReference work_;
  std::shared_future<void> previous_;
  std::promise<void> launched_;  // one that is dropped ends the wait of the next as well: a failed call stops nobody
};

inline Group::~Group() {
  try {
    backend::close(options, backend);
  } catch (const std::exception&) {
    // There is nobody to tell, and the group is gone either way.
  }
}

inline std::string Group::place() const {
  return "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) + " in " + options.backend +
         " group \"" + options.name + "\"";
}

namespace detail {

inline std::string joined(const std::vector<std::string>& items, const char* separator) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : separator) + item;
  return text;
}

// What an error of libtorch says, as a sentence: without the source line before and the C++ stack after it.
inline std::string sentenceOf(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  if (!text.empty() && text[0] == '[' && text.find("] ") != std::string::npos) text = text.substr(text.find("] ") + 2);
  return text.empty() || text.back() == '.' ? text : text + ".";
}

inline bool containsAny(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) != std::string::npos) return true;
  }
  return false;
}

inline bool isTimeout(const std::string& text) { return containsAny(text, {"imed out", "imeout", "TIMEOUT"}); }

inline bool isLostPeer(const std::string& text) {
  return containsAny(text, {"Connection closed", "Connection reset", "Connection refused", "Broken pipe",
                            "Socket closed", "remote process exited"});
}

inline std::string arrivalKey(int rank) { return "arrived/" + std::to_string(rank); }

inline void arrive(const Group& group, c10d::Store& store) {
  if (store.add(arrivalKey(group.options.rank), 1) == 1) return;
  throw Failure("DUPLICATE_RANK", group.place() +
                                      " has arrived before: two processes have this rank, or the name of the group "
                                      "was used before in this store. Give every group of a store its own name.");
}

inline void waitForPeers(const Group& group, c10d::Store& store) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < group.options.size; rank++) keys.push_back(arrivalKey(rank));
  try {
    store.wait(keys, group.options.timeout);
  } catch (const std::exception& error) {
    std::vector<std::string> missing;
    for (int rank = 0; rank < group.options.size; rank++) {
      if (!store.check({arrivalKey(rank)})) missing.push_back(std::to_string(rank));
    }
    if (missing.empty()) throw;
    throw Failure("RENDEZVOUS_TIMEOUT", group.place() + " waited " + std::to_string(group.options.timeout.count()) +
                                            " ms, and these ranks did not arrive: " + joined(missing, ", ") +
                                            ". Start them, or give them more time with timeoutMs.");
  }
}

// FNV-1a: the same number in every process.
inline uint64_t hashOf(const std::string& text) {
  uint64_t hash = 14695981039346656037ull;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 1099511628211ull;
  return hash;
}

// What a rank is about to do, in a form of fixed size: a hash of the whole text, and its beginning for the message.
constexpr size_t kCardBytes = 256;
constexpr size_t kCardText = kCardBytes - sizeof(uint64_t);

inline at::Tensor cardOf(const std::string& description) {
  const uint64_t hash = hashOf(description);
  at::Tensor card = at::zeros({static_cast<int64_t>(kCardBytes)}, at::kByte);
  char* bytes = static_cast<char*>(card.data_ptr());
  std::memcpy(bytes, &hash, sizeof(hash));
  std::memcpy(bytes + sizeof(hash), description.data(), std::min(description.size(), kCardText - 1));
  return card;
}

inline std::string textOf(const at::Tensor& card) {
  return static_cast<const char*>(card.data_ptr()) + sizeof(uint64_t);
}

}  // namespace detail

inline void connectGroup(Group& group) {
  try {
    const std::string prefix = group.isForeign() ? group.options.prefix : "reroll/" + group.options.name;
    auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, group.store->connect());
    store->setTimeout(group.options.timeout);
    if (!group.isForeign()) {
      detail::arrive(group, *store);
      detail::waitForPeers(group, *store);
    }
    group.backend = backend::connect(group.options, store);
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& error) {
    throw Failure("RENDEZVOUS_FAILED", group.place() + " could not connect: " + detail::sentenceOf(error));
  }
}

inline Flight::Flight(std::shared_ptr<Group> group, Collective collective)
    : group_(std::move(group)), collective_(std::move(collective)) {
  if (!isDeferred()) {
    launch();
    return;
  }
  previous_ = group_->lastLaunch;
  group_->lastLaunch = launched_.get_future().share();
}

inline void Flight::run() {
  if (isDeferred()) {
    if (previous_.valid()) previous_.wait();
    if (isCompared()) compareWithPeers();
    launch();
    launched_.set_value();
  }
  try {
    if (work_) backend::wait(group_->options, work_);
    if (collective_.finish) collective_.finish();
  } catch (const std::exception& error) {
    throw breakGroup(error);
  }
}

inline void Flight::launch() {
  expectWholeGroup();
  try {
    if (collective_.launch) work_ = collective_.launch();
  } catch (const std::exception& error) {
    throw breakGroup(error);
  }
}

inline void Flight::compareWithPeers() {
  expectWholeGroup();
  std::vector<at::Tensor> mine{detail::cardOf(collective_.description)};
  std::vector<std::vector<at::Tensor>> cards(1);
  for (int rank = 0; rank < group_->options.size; rank++) cards[0].push_back(at::zeros_like(mine[0]));
  try {
    backend::wait(group_->options, group_->backend->allgather(cards, mine));
  } catch (const std::exception& error) {
    throw breakGroup(error);
  }
  std::vector<std::string> calls;
  bool isEqual = true;
  for (size_t rank = 0; rank < cards[0].size(); rank++) {
    isEqual = isEqual && cards[0][rank].equal(mine[0]);
    if (rank < 8) calls.push_back("rank " + std::to_string(rank) + " calls " + detail::textOf(cards[0][rank]));
  }
  if (isEqual) return;
  throw Failure("COLLECTIVE_MISMATCH", "the ranks of " + group_->options.backend + " group \"" + group_->options.name +
                                           "\" disagree about the next collective: " + detail::joined(calls, ", ") +
                                           ". Every rank must make the same calls in the same order, with equal "
                                           "shapes and types.");
}

inline void Flight::expectWholeGroup() {
  std::lock_guard<std::mutex> lock(group_->failureMutex);
  if (group_->failure.empty()) return;
  throw Failure("GROUP_BROKEN", group_->place() + " cannot start " + collective_.description +
                                    ", because an earlier collective failed: " + group_->failure +
                                    " Make a new group.");
}

// After a failed transfer the ranks no longer agree on what has been sent, so the group is of no use.
inline Failure Flight::breakGroup(const std::exception& error) {
  const std::string reason = detail::sentenceOf(error);
  const bool isLost = detail::isLostPeer(reason);
  const bool isLate = !isLost && detail::isTimeout(reason);
  const std::string waited = std::to_string(group_->options.timeout.count()) + " ms";
  const std::string what = group_->place() +
                           (isLost   ? " lost a peer in "
                            : isLate ? " waited longer than " + waited + " for its peers in "
                                     : " failed in ") +
                           collective_.description + ": " + reason;
  {
    std::lock_guard<std::mutex> lock(group_->failureMutex);
    if (group_->failure.empty()) group_->failure = what;
  }
  const char* code = isLost ? "PEER_LOST" : isLate ? "COLLECTIVE_TIMEOUT" : "COLLECTIVE_FAILED";
  const char* advice = isLost   ? " Look at the log of the rank that ended."
                       : isLate ? " Every rank must make this call; a point-to-point call needs the same shape, type "
                                  "and tag on both sides."
                                : "";
  return Failure(code, what + advice);
}

}  // namespace reroll
