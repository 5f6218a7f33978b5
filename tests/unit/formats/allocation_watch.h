// The largest single request that operator new has had; for tests that feed huge counts to a
// reader.
#pragma once

#include <cstddef>

namespace phidias::test {

void forget_allocations();
size_t largest_allocation();

}  // namespace phidias::test
