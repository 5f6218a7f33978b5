// Places in a kernel table as constants, so that no call of index_of is left even where nothing is
// optimised: a file of an instruction set must not bring a copy of a shared function.
#pragma once

#include "kernels/table.h"

namespace phidias {

template <Format kFormat>
inline constexpr size_t kAt = index_of(kFormat);
template <KvType kType>
inline constexpr size_t kKvAt = index_of(kType);

}  // namespace phidias
