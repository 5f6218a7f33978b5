// A format for rows that are no whole blocks of the one that was wished for.
#pragma once

#include <cstddef>

#include "quant/format.h"

namespace phidias {

// `wanted` where rows of `cols` values are whole blocks of it; else the format with the fewest bits
// above it of whose blocks they are.
Format fitting(Format wanted, size_t cols);

}  // namespace phidias
