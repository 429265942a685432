// A table of objects that JavaScript knows by number.
//
// A handle is generation * 2^24 + slot + fraction. The generation of a slot changes whenever its object is released, so
// a stale or invented number is refused, never followed. Each table has its own fraction, so a handle is no integer, no
// number that a program is likely to compute with, and never a handle of another table: passing 3 or a generator where
// a tensor is expected is an error, and so is passing a tensor where a number is expected.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace reroll {

constexpr uint64_t kMaxSlots = 1ull << 24;
constexpr uint64_t kFirstGeneration = 1ull << 20;
constexpr uint64_t kEndGeneration = 1ull << 27;  // a double below 2^51 has room for the fractions
constexpr double kTensorFraction = 0.5;
constexpr double kObjectFraction = 0.25;

inline bool isHandleOf(double fraction, double number) {
  return number >= static_cast<double>(kFirstGeneration * kMaxSlots) &&
         number < static_cast<double>(kEndGeneration * kMaxSlots) && number - std::floor(number) == fraction;
}

// Whether a number is a handle of some table, live or not.
inline bool looksLikeHandle(double number) {
  return isHandleOf(kTensorFraction, number) || isHandleOf(kObjectFraction, number);
}

template <typename T>
class HandleTable {
 public:
  explicit HandleTable(double fraction) : fraction_(fraction) {}

  double insert(T value) {
    uint32_t slot;
    if (free_.empty()) {
      if (entries_.size() >= kMaxSlots) throw std::length_error("more than 16 million live handles; dispose some");
      slot = static_cast<uint32_t>(entries_.size());
      entries_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    Entry& entry = entries_[slot];
    entry.value = std::move(value);
    entry.isLive = true;
    live_++;
    return static_cast<double>(entry.generation * kMaxSlots + slot) + fraction_;
  }

  // The object of this handle, or null where the handle is stale or never existed.
  T* find(double handle) {
    if (!isHandleOf(fraction_, handle)) return nullptr;
    const uint64_t number = static_cast<uint64_t>(handle);
    const uint32_t slot = static_cast<uint32_t>(number % kMaxSlots);
    if (slot >= entries_.size()) return nullptr;
    Entry& entry = entries_[slot];
    if (!entry.isLive || entry.generation != number / kMaxSlots) return nullptr;
    return &entry.value;
  }

  // Takes the object out. The caller destroys it after the table is consistent again, since destructors may come back.
  bool remove(double handle, T* removed) {
    T* found = find(handle);
    if (found == nullptr) return false;
    const uint32_t slot = static_cast<uint32_t>(static_cast<uint64_t>(handle) % kMaxSlots);
    Entry& entry = entries_[slot];
    *removed = std::move(entry.value);
    entry.value = T();
    entry.isLive = false;
    entry.generation++;
    // A slot whose generations are used up is retired: no handle ever comes back.
    if (entry.generation < kEndGeneration) free_.push_back(slot);
    live_--;
    return true;
  }

  size_t live() const { return live_; }

 private:
  struct Entry {
    T value{};
    uint64_t generation = kFirstGeneration;
    bool isLive = false;
  };
  const double fraction_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  size_t live_ = 0;
};

}  // namespace reroll
