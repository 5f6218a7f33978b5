// What a dataset keeps of each token, and how its numbers are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors_writer.h"
#include "model/spec.h"
#include "phidias/dataset.h"
#include "quant/format.h"

namespace phidias {

// One value of one layer: a row of `width` numbers for each token.
struct DatasetColumn {
  std::string name;
  std::vector<uint64_t> row_shape;
  size_t width = 1;
  size_t heads = 1;  // in a row; a tensor of the value has them before the positions where
  bool heads_first = false;
};

// Errors: kInvalidArgument (no rows by position, a selection, nothing at all), kUnsupported.
Result<std::vector<DatasetColumn>> dataset_columns(const ModelSpec& spec,
                                                   const CollectOptions& options);

// How rows are stored: a float format, or int8 with a scale for each row.
class RowStorage {
 public:
  // Errors: kInvalidArgument for a dtype that is none of them.
  static Result<RowStorage> from_name(const std::string& dtype);

  size_t row_bytes(size_t width) const;
  bool scaled() const { return !format_; }
  std::string safetensors() const;
  // `scale` is written where scaled().
  void encode(std::span<const float> row, std::byte* to, float& scale) const;

 private:
  std::optional<Format> format_;  // none: int8
};

}  // namespace phidias
