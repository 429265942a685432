// Operators of libtorch, called through the dispatcher with boxed arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "convert.h"

namespace reroll {

// One operator as JavaScript calls it: its handle and how to read each argument.
struct OperatorEntry {
  OperatorEntry(State& state, c10::OperatorHandle handle, std::string name);
  State& state;
  c10::OperatorHandle handle;
  std::string name;
  std::vector<ArgumentConverter> arguments;
  size_t numReturns;
  bool returnsDtype;  // a number to libtorch, a name to JavaScript
  bool isVariadic;
  bool dividesIntegers;
};

}  // namespace reroll
