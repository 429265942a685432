// Declarations of Gloo types, for libtorch's ProcessGroupGloo.hpp.
//
// libtorch contains Gloo, but neither Debian's package nor the PyTorch wheel ships Gloo's headers. ProcessGroupGloo
// holds Gloo objects by pointer only, so declarations are enough to use it: nothing here is ever constructed or called
// from the addon. The folder is searched last (-idirafter), so the real headers win where they are installed.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
