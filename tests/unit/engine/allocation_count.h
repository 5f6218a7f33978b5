// How often this test binary has called operator new; for tests that promise to allocate nothing.
#pragma once

#include <cstddef>

namespace phidias::test {

size_t allocation_count();

}  // namespace phidias::test
