// The communication backends of libtorch's c10d, over the differences between libtorch 1.13 and 2.x.
#pragma once

#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#if defined(USE_C10D_GLOO) && __has_include(<gloo/context.h>)
#define REROLL_GLOO 1
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

// nccl.h is of the machine, not of libtorch: without it the addon is built without NCCL.
#if defined(REROLL_CUDA) && defined(USE_C10D_NCCL) && TORCH_VERSION_MAJOR >= 2 && __has_include(<nccl.h>)
#define REROLL_NCCL 1
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "napi_call.h"

namespace reroll {

#if TORCH_VERSION_MAJOR >= 2
using CollectiveBackend = c10d::Backend;
#else
using CollectiveBackend = c10d::ProcessGroup;
#endif
using BackendReference = c10::intrusive_ptr<CollectiveBackend>;
using StoreReference = c10::intrusive_ptr<c10d::Store>;
using WorkReference = c10::intrusive_ptr<c10d::Work>;

struct GroupOptions {
  std::string backend;  // "gloo" or "nccl"
  std::string name;
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  std::string host;              // Gloo: the address to listen at; empty for the default
  std::string networkInterface;  // Gloo: the interface to listen at; empty for the default
  std::string device;            // NCCL: the CUDA device of this rank
  std::string prefix;            // of the group's keys, where its other ranks are not ours; empty in groups of our own
  bool isLazy = false;           // NCCL: the other ranks connect with their first collective, and so must this one
};

namespace backend {

inline std::vector<std::string> available() {
  std::vector<std::string> names;
#ifdef REROLL_GLOO
  names.push_back("gloo");
#endif
#ifdef REROLL_NCCL
  names.push_back("nccl");
#endif
  return names;
}

inline Failure missing(const std::string& name) {
  std::string known;
  for (const std::string& other : available()) known += (known.empty() ? "" : ", ") + other;
  return Failure("UNKNOWN_BACKEND", "there is no backend \"" + name + "\" in this addon. It was built with: " +
                                        (known.empty() ? "none" : known) + ".");
}

// libtorch 2.x can run its store on libuv, whose functions it would then take from Node's libuv of another version.
template <typename Options>
auto useOwnEventLoop(Options& options, int) -> decltype(options.useLibUV = false, void()) {
  options.useLibUV = false;
}
template <typename Options>
void useOwnEventLoop(Options&, long) {}

// Blocks until the server answers.
inline c10::intrusive_ptr<c10d::TCPStore> openTcpStore(const std::string& host, uint16_t port, bool isServer,
                                                       std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = isServer;
  options.waitWorkers = false;
  options.timeout = timeout;
  useOwnEventLoop(options, 0);
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

#ifdef REROLL_GLOO
// Transfers of one group that run side by side; more wait. Gloo's default of two leaves a data-parallel bucket waiting
// while the next one is compared.
constexpr int kGlooThreads = 4;

inline BackendReference connectGloo(const GroupOptions& group, const StoreReference& store) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(group.timeout);
  options->threads = kGlooThreads;
  options->devices.push_back(!group.host.empty()               ? Gloo::createDeviceForHostname(group.host)
                             : !group.networkInterface.empty() ? Gloo::createDeviceForInterface(group.networkInterface)
                                                               : Gloo::createDefaultDevice());
  return c10::make_intrusive<Gloo>(store, group.rank, group.size, options);
}
#endif

#ifdef REROLL_NCCL
// NCCL errors and timeouts are for wait() to throw. By default a watchdog thread ends the whole process instead.
// Read by the constructor of the backend; set on the JavaScript thread, since changing the environment is not
// safe against threads that read it.
inline void letWaitThrow() {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 2
  setenv("TORCH_NCCL_BLOCKING_WAIT", "1", /*overwrite=*/1);
#else
  setenv("NCCL_BLOCKING_WAIT", "1", /*overwrite=*/1);
#endif
}

// Not in every 2.x. With it, point-to-point calls use the connections of the group and make none of their own.
template <typename Nccl>
auto connectDevice(Nccl& nccl, at::Device device, int) -> decltype(nccl.eagerConnectSingleDevice(device), void()) {
  nccl.setBoundDeviceId(device);
  nccl.eagerConnectSingleDevice(device);
}
template <typename Nccl>
void connectDevice(Nccl&, at::Device, long) {}

// Connects at once: otherwise the first collective would, and hold the JavaScript thread while it waits for peers.
inline BackendReference connectNccl(const GroupOptions& group, const StoreReference& store) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = group.timeout;
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, group.rank, group.size, options);
  if (group.isLazy) return nccl;
  const at::Device device(group.device);
  connectDevice(*nccl, device, 0);
  std::vector<at::Tensor> one{at::ones({1}, at::TensorOptions().device(device))};
  nccl->allreduce(one)->wait(group.timeout);
  return nccl;
}
#endif

inline BackendReference connect(const GroupOptions& group, const StoreReference& store) {
#ifdef REROLL_GLOO
  if (group.backend == "gloo") return connectGloo(group, store);
#endif
#ifdef REROLL_NCCL
  if (group.backend == "nccl") return connectNccl(group, store);
#endif
  throw missing(group.backend);
}

// Before the JavaScript thread hands the rest to another.
inline void prepare(const GroupOptions& group) {
  const std::vector<std::string> names = available();
  if (std::find(names.begin(), names.end(), group.backend) == names.end()) throw missing(group.backend);
#ifdef REROLL_NCCL
  if (group.backend != "nccl") return;
  const at::Device device(group.device);
  if (!device.is_cuda() || !device.has_index()) {
    throw Failure("INVALID_ARGUMENT",
                  "argument 'device' must name one CUDA device, such as cuda:0, got " + group.device + ".");
  }
  letWaitThrow();
#endif
}

// Gloo's own threads give up after the timeout of the group. NCCL's wait() only looks every 10 ms, so look oftener, and
// let it end, or abort the communicator and throw.
inline void wait(const GroupOptions& group, const WorkReference& work) {
  if (group.backend == "gloo") {
    work->wait();
    return;
  }
  const auto end = std::chrono::steady_clock::now() + group.timeout;
  while (!work->isCompleted() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  work->wait(std::chrono::milliseconds(1));
}

// Not in every 2.x. The destructor does the same, with a warning that names a Python function.
template <typename Backend>
auto abortQuietly(Backend& backend, int) -> decltype(backend.abort(), void()) {
  backend.abort();
}
template <typename Backend>
void abortQuietly(Backend&, long) {}

// Ends the communication of a group that is not used any more.
inline void close(const GroupOptions& group, BackendReference& backend) {
  if (group.backend == "nccl" && backend) abortQuietly(*backend, 0);
  backend.reset();
}

}  // namespace backend

}  // namespace reroll
