// What the table files share. Local to the including file.
#pragma once

#include "kernels/table.h"

namespace phidias::neon {
namespace {

// A constant, so that no call of index_of is left even where nothing is optimised.
template <Format kFormat>
inline constexpr size_t kAt = index_of(kFormat);
template <KvType kType>
inline constexpr size_t kKvAt = index_of(kType);

}  // namespace
}  // namespace phidias::neon
