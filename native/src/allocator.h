#pragma once

namespace reroll {

// Puts the counting allocator in place, once per process, before the first tensor is made.
void installAllocator();

}  // namespace reroll
