// Random generators that JavaScript holds by handle.
#pragma once

#include <ATen/core/Generator.h>

#include "state.h"

namespace reroll {

at::Generator generatorOf(State& state, double handle);

}  // namespace reroll
