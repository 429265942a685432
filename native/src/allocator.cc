// A CPU allocator that counts what libtorch holds, so that a leak is a number and not a feeling.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#if __has_include(<c10/core/impl/alloc_cpu.h>)
#include <c10/core/impl/alloc_cpu.h>
#endif

#include "allocator.h"
#include "napi_call.h"

namespace reroll {

namespace {

std::atomic<int64_t> liveBytes{0};
std::atomic<int64_t> peakBytes{0};
std::atomic<int64_t> numAllocations{0};

constexpr size_t kLargeBytes = 64 << 20;
constexpr int64_t kUnknown = -1;

// The number after `key` in a file of the kernel, or its first number where the key is empty; kUnknown without one.
int64_t numberIn(const char* path, const char* key) {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return kUnknown;
  char line[256];
  long long number = kUnknown;
  const size_t length = std::strlen(key);
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, key, length) == 0 && std::sscanf(line + length, "%lld", &number) == 1) break;
  }
  std::fclose(file);
  return number;
}

// What this process can still take: of the machine, and of its container. Pages of files are given back on demand.
int64_t availableBytes() {
  const int64_t kilobytes = numberIn("/proc/meminfo", "MemAvailable:");
  const int64_t machine = kilobytes == kUnknown ? INT64_MAX : kilobytes * 1024;
  const int64_t limit = numberIn("/sys/fs/cgroup/memory.max", "");
  const int64_t used = numberIn("/sys/fs/cgroup/memory.current", "");
  if (limit == kUnknown || used == kUnknown) return machine;
  const int64_t files = std::max<int64_t>(numberIn("/sys/fs/cgroup/memory.stat", "file "), 0);
  return std::min(machine, limit - used + files);
}

// The kernel hands out memory that it does not have, and kills the process when it is written to. An error is better.
void* allocateIfAvailable(size_t size) {
  if (size >= kLargeBytes) {
    const int64_t available = std::max<int64_t>(availableBytes(), 0);
    TORCH_CHECK_WITH(OutOfMemoryError, size <= static_cast<uint64_t>(available), "a tensor of ", size,
                     " bytes does not fit: ", available, " bytes are available.");
  }
  try {
    return c10::alloc_cpu(size);
  } catch (const c10::Error&) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "a tensor of ", size, " bytes could not be allocated.");
  }
}

void countFree(void* pointer) {
  if (pointer == nullptr) return;
  liveBytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(pointer)), std::memory_order_relaxed);
  c10::free_cpu(pointer);
}

class CountingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(size_t size) override { return count(size); }
#else
  c10::DataPtr allocate(size_t size) const override { return count(size); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return &countFree; }
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 2)
  void copy_data(void* target, const void* source, std::size_t count) const override {
    default_copy_data(target, source, count);
  }
#endif

 private:
  static c10::DataPtr count(size_t size) {
    void* pointer = allocateIfAvailable(size);
    if (pointer != nullptr) {
      const int64_t bytes = static_cast<int64_t>(malloc_usable_size(pointer));
      const int64_t live = liveBytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
      int64_t peak = peakBytes.load(std::memory_order_relaxed);
      while (live > peak && !peakBytes.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
      }
      numAllocations.fetch_add(1, std::memory_order_relaxed);
    }
    return {pointer, pointer, &countFree, c10::Device(c10::DeviceType::CPU)};
  }
};

napi_value memoryStats(Arguments& args) {
  napi_value result;
  napi_create_object(args.state.env, &result);
  setProperty(args.state, result, "liveBytes", toJs(args.state, static_cast<double>(liveBytes.load())));
  setProperty(args.state, result, "peakBytes", toJs(args.state, static_cast<double>(peakBytes.load())));
  setProperty(args.state, result, "numAllocations", toJs(args.state, static_cast<double>(numAllocations.load())));
  setProperty(args.state, result, "liveTensors", toJs(args.state, static_cast<double>(args.state.liveTensors())));
  return result;
}

napi_value resetPeakMemory(Arguments&) {
  peakBytes = liveBytes.load();
  return nullptr;
}

// Gives freed pages back to the system. glibc walks everything that was ever allocated for it: for a thread that nobody
// waits for.
napi_value trimMemory(Arguments&) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  return nullptr;
}

}  // namespace

namespace {

// A training step frees and takes the same large blocks again and again. By default glibc hands such blocks back to the
// system, which then maps and clears every page anew: a tenth of the time of a step. The largest values glibc allows.
void keepFreedPages() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

}  // namespace

void installAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    keepFreedPages();
    c10::SetCPUAllocator(new CountingAllocator(), /*priority=*/100);
  });
}

std::vector<Export> allocatorExports() {
  return {{"memoryStats", memoryStats}, {"resetPeakMemory", resetPeakMemory}, {"trimMemory", trimMemory}};
}

}  // namespace reroll
