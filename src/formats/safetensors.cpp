#include "formats/safetensors.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "base/try.h"
#include "formats/checked.h"
#include "formats/safetensors_dtype.h"

namespace phidias {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kHeaderLimit = 100'000'000;  // the limit of the format's own library

std::string show_shape(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// One tensor as its header describes it; offsets count from the start of the data.
struct Described {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Result<SafetensorsFile> parse() {
    PHIDIAS_CHECK_OK(read_header());
    PHIDIAS_CHECK_OK(check_layout());
    for (Described& tensor : described_) PHIDIAS_CHECK_OK(keep(std::move(tensor)));
    return std::move(result_);
  }

 private:
  Error fault(Code code, std::string message, std::string_view item = {},
              std::optional<uint64_t> offset = {}) const {
    return {code, std::move(message), {file_, offset, std::string(item)}};
  }
  Error corrupt(std::string message, std::string_view item = {},
                std::optional<uint64_t> offset = {}) const {
    return fault(Code::kCorrupt, std::move(message), item, offset);
  }

  Status read_header() {
    if (bytes_.size() < kLengthBytes) {
      return corrupt(
          fmt::format("is no safetensors file: it has {} bytes, and the length of the "
                      "header alone takes {}",
                      bytes_.size(), kLengthBytes));
    }
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > bytes_.size() - kLengthBytes) {
      return corrupt(
          fmt::format("is cut short, or is no safetensors file: the header should have {} bytes, "
                      "and {} are left in the file",
                      length, bytes_.size() - kLengthBytes),
          {}, 0);
    }
    if (length > kHeaderLimit) {
      return fault(
          Code::kCapacityExceeded,
          fmt::format("has a header of {} bytes; at most {} are read", length, kHeaderLimit), {},
          0);
    }
    data_start_ = kLengthBytes + length;

    simdjson::dom::parser parser;
    const simdjson::padded_string text(reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes,
                                       length);
    simdjson::dom::object header;
    const auto failure = parser.parse(text).get(header);
    if (failure != simdjson::SUCCESS) {
      return corrupt(
          fmt::format("has a header that is no JSON object: {}", simdjson::error_message(failure)),
          {}, kLengthBytes);
    }
    std::unordered_set<std::string_view> names;
    for (const auto& [name, value] : header) {
      if (!names.insert(name).second) return corrupt("is listed twice in the header", name);
      PHIDIAS_CHECK_OK(name == "__metadata__" ? read_metadata(value) : read_tensor(name, value));
    }
    return {};
  }

  Status read_metadata(simdjson::dom::element value) {
    simdjson::dom::object entries;
    if (value.get(entries) != simdjson::SUCCESS) {
      return corrupt("must be an object of strings", "__metadata__");
    }
    for (const auto& [key, entry] : entries) {
      std::string_view text;
      if (entry.get(text) != simdjson::SUCCESS) {
        return corrupt("must be a string", fmt::format("__metadata__/{}", key));
      }
      if (!result_.metadata.emplace(key, text).second) {
        return corrupt("is listed twice", fmt::format("__metadata__/{}", key));
      }
    }
    return {};
  }

  Status read_tensor(std::string_view name, simdjson::dom::element value) {
    simdjson::dom::object fields;
    if (value.get(fields) != simdjson::SUCCESS) {
      return corrupt("must be an object with dtype, shape and data_offsets", name);
    }
    Described tensor;
    tensor.name = name;
    bool has_dtype = false, has_shape = false, has_offsets = false;
    for (const auto& [key, field] : fields) {
      bool* seen = key == "dtype"          ? &has_dtype
                   : key == "shape"        ? &has_shape
                   : key == "data_offsets" ? &has_offsets
                                           : nullptr;
      if (seen == nullptr) continue;
      if (*seen) return corrupt(fmt::format("has two fields \"{}\"", key), name);
      *seen = true;
      if (seen == &has_dtype) {
        std::string_view dtype;
        if (field.get(dtype) != simdjson::SUCCESS) return corrupt("dtype must be a string", name);
        tensor.dtype = dtype;
      } else if (seen == &has_shape) {
        PHIDIAS_TRY(tensor.shape, read_numbers(field, "shape", name));
      } else {
        PHIDIAS_TRY(const auto offsets, read_numbers(field, "data_offsets", name));
        if (offsets.size() != 2) {
          return corrupt(fmt::format("data_offsets must be two numbers, found {}", offsets.size()),
                         name);
        }
        tensor.begin = offsets[0];
        tensor.end = offsets[1];
      }
    }
    if (!has_dtype || !has_shape || !has_offsets) {
      return corrupt("needs the fields dtype, shape and data_offsets", name);
    }
    if (tensor.begin > tensor.end) {
      return corrupt(
          fmt::format("begins at {} and ends before that, at {}", tensor.begin, tensor.end), name);
    }
    described_.push_back(std::move(tensor));
    return {};
  }

  Result<std::vector<uint64_t>> read_numbers(simdjson::dom::element value, std::string_view field,
                                             std::string_view name) const {
    simdjson::dom::array entries;
    std::vector<uint64_t> numbers;
    if (value.get(entries) != simdjson::SUCCESS) {
      return corrupt(fmt::format("{} must be a list of whole numbers", field), name);
    }
    for (const simdjson::dom::element entry : entries) {
      uint64_t number = 0;
      if (entry.get(number) != simdjson::SUCCESS) {
        return corrupt(
            fmt::format("{} must be a list of whole numbers that are not negative", field), name);
      }
      numbers.push_back(number);
    }
    return numbers;
  }

  // The data of all tensors, one after another, is exactly what follows the header.
  Status check_layout() {
    std::stable_sort(described_.begin(), described_.end(),
                     [](const Described& a, const Described& b) {
                       return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                     });
    const uint64_t available = bytes_.size() - data_start_;
    uint64_t expected = 0;
    for (const Described& tensor : described_) {
      if (tensor.end > available) {
        const auto needed = checked_add(data_start_, tensor.end);
        return corrupt(
            needed ? fmt::format("ends at byte {}, but the file has {} bytes: it is cut short",
                                 *needed, bytes_.size())
                   : fmt::format("ends beyond byte {}, but the file has {} bytes", UINT64_MAX,
                                 bytes_.size()),
            tensor.name, checked_add(data_start_, tensor.begin));
      }
      if (tensor.begin != expected) {
        return corrupt(
            fmt::format("begins at byte {} of the data, but the tensor before it ends at {}: {}",
                        tensor.begin, expected,
                        tensor.begin < expected ? "they overlap" : "there is a hole"),
            tensor.name, data_start_ + tensor.begin);
      }
      expected = tensor.end;
    }
    if (expected != available) {
      return corrupt(
          fmt::format("has {} bytes, but the header describes {}: the last tensor must end where "
                      "the file does",
                      bytes_.size(), data_start_ + expected),
          {}, data_start_ + expected);
    }
    return {};
  }

  // Compares shape and size, and makes an entry of what we can read.
  Status keep(Described tensor) {
    const uint64_t bytes = tensor.end - tensor.begin;
    const uint64_t offset = data_start_ + tensor.begin;
    const auto bits = safetensors_bits(tensor.dtype);
    if (bits) {
      const auto values = checked_product(tensor.shape);
      const auto all_bits = values ? checked_multiply(*values, *bits) : std::nullopt;
      if (!all_bits) {
        return corrupt(fmt::format("has the shape {}: more values than can be counted",
                                   show_shape(tensor.shape)),
                       tensor.name, offset);
      }
      if (*all_bits % 8 != 0 || *all_bits / 8 != bytes) {
        return corrupt(fmt::format("should have {} bits by its shape {} and dtype {}, but has {} "
                                   "bytes",
                                   *all_bits, show_shape(tensor.shape), tensor.dtype, bytes),
                       tensor.name, offset);
      }
    }
    const auto format = format_from_safetensors(tensor.dtype);
    if (!format) {
      result_.ignored.push_back({std::move(tensor.name), std::move(tensor.dtype)});
      return {};
    }
    TensorEntry entry;
    entry.name = std::move(tensor.name);
    entry.format = *format;
    entry.shape = std::move(tensor.shape);
    entry.data = bytes_.data() + offset;
    entry.bytes = bytes;
    entry.offset = offset;
    result_.tensors.push_back(std::move(entry));
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  uint64_t data_start_ = 0;
  std::vector<Described> described_;
  SafetensorsFile result_;
};

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  PHIDIAS_TRY(auto mapped, MappedFile::open(path));
  PHIDIAS_TRY(auto parsed, parse(mapped->bytes(), path.string()));
  parsed.file = std::move(mapped);
  return parsed;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                               const std::string& name) {
  return Parser(bytes, name).parse();
}

}  // namespace phidias
