// Writer of safetensors files: the header first, then the data as they come, so that what does not
// fit in memory can be written too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "phidias/status.h"

namespace phidias {

struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    std::string dtype;            // of the format: "F32", "I64", "U8" ...
    std::vector<uint64_t> shape;  // outermost first
  };
  std::vector<Tensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// One thread at a time.
class SafetensorsWriter {
 public:
  // Errors: those of OutputFile::create; kInvalidArgument for a name given twice, an unknown dtype,
  // or a shape of more bytes than can be counted. Readers want values at multiples of their size:
  // give tensors of wide dtypes first.
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          const SafetensorsHeader& header);

  // Data of all tensors one after another, in pieces of any size, little-endian.
  Status write(std::span<const std::byte> bytes);
  // The file appears under its name. kInternal unless all bytes that the header announced were
  // written.
  Status commit();

 private:
  SafetensorsWriter(OutputFile file, uint64_t left) : file_(std::move(file)), left_(left) {}

  OutputFile file_;
  uint64_t left_;  // bytes of data still to come
};

// A tensor that lies in memory, and the whole file at once; wide dtypes are put first.
struct SafetensorsData {
  SafetensorsHeader::Tensor tensor;
  std::span<const std::byte> bytes;
};
Status write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsData> tensors,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace phidias
