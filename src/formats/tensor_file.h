// What every kind of checkpoint file is to the rest of the program: a list of named tensors that
// lie in mapped memory. A reader checks that each tensor lies inside its file, overlaps no other,
// and has the number of bytes that its shape and format need; only then does it hand out an entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quant/format.h"

namespace phidias {

struct TensorEntry {
  std::string name;
  Format format = Format::kF32;
  std::vector<uint64_t> shape;      // outermost first, as PyTorch prints it: [rows, columns]
  const std::byte* data = nullptr;  // into the mapping; alignment is the file's
  uint64_t bytes = 0;
  uint64_t offset = 0;  // of the data, from the start of the file
  uint32_t file = 0;    // index into the list of file names kept by whoever opened them
};

}  // namespace phidias
