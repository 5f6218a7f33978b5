// The one pass over a GGUF file that makes a GgufFile of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "base/try.h"
#include "formats/checked.h"
#include "formats/gguf.h"
#include "formats/gguf_types.h"

namespace phidias {
namespace {

// Fewest bytes that one entry can take; bounds the counts before anything is allocated.
constexpr uint64_t kLeastMetadataBytes = 8 + 4 + 1;    // length of the key, type, one byte of value
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;  // length of the name, rank, type, offset
constexpr uint64_t kLeastStringBytes = 8;

// Names of the tensor types that ggml knows, for errors.
struct TensorType {
  uint32_t number;
  std::string_view name;
};
constexpr std::array kTensorTypes = {
    TensorType{0, "F32"},      TensorType{1, "F16"},      TensorType{2, "Q4_0"},
    TensorType{3, "Q4_1"},     TensorType{4, "Q4_2"},     TensorType{5, "Q4_3"},
    TensorType{6, "Q5_0"},     TensorType{7, "Q5_1"},     TensorType{8, "Q8_0"},
    TensorType{9, "Q8_1"},     TensorType{10, "Q2_K"},    TensorType{11, "Q3_K"},
    TensorType{12, "Q4_K"},    TensorType{13, "Q5_K"},    TensorType{14, "Q6_K"},
    TensorType{15, "Q8_K"},    TensorType{16, "IQ2_XXS"}, TensorType{17, "IQ2_XS"},
    TensorType{18, "IQ3_XXS"}, TensorType{19, "IQ1_S"},   TensorType{20, "IQ4_NL"},
    TensorType{21, "IQ3_S"},   TensorType{22, "IQ2_S"},   TensorType{23, "IQ4_XS"},
    TensorType{24, "I8"},      TensorType{25, "I16"},     TensorType{26, "I32"},
    TensorType{27, "I64"},     TensorType{28, "F64"},     TensorType{29, "IQ1_M"},
    TensorType{30, "BF16"},    TensorType{34, "TQ1_0"},   TensorType{35, "TQ2_0"},
    TensorType{39, "MXFP4"},   TensorType{40, "NVFP4"},
};

std::string show_tensor_type(uint32_t number) {
  const auto at = std::find_if(kTensorTypes.begin(), kTensorTypes.end(),
                               [&](const TensorType& type) { return type.number == number; });
  return at == kTensorTypes.end() ? fmt::format("number {}", number) : std::string(at->name);
}

std::string names_of_formats() {
  std::string names;
  for (const FormatRow& row : format_rows()) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes) {
    result_.name = file;
  }

  Result<GgufFile> parse() {
    PHIDIAS_TRY(const Counts counts, read_counts());
    for (uint64_t i = 0; i < counts.metadata; ++i) PHIDIAS_CHECK_OK(read_pair());
    PHIDIAS_CHECK_OK(read_alignment());
    item_.clear();
    // Bounded again here: the metadata has used up bytes since the count was read.
    PHIDIAS_CHECK_OK(check_count(counts.tensors, kLeastTensorBytes, "tensors"));
    result_.tensors.reserve(counts.tensors);
    std::unordered_set<std::string> names;
    for (uint64_t i = 0; i < counts.tensors; ++i) {
      PHIDIAS_CHECK_OK(read_tensor());
      if (!names.insert(result_.tensors.back().name).second) {
        return corrupt("is listed twice among the tensors");
      }
    }
    PHIDIAS_CHECK_OK(place_data());
    return std::move(result_);
  }

 private:
  struct Counts {
    uint64_t tensors;
    uint64_t metadata;
  };

  uint64_t left() const { return bytes_.size() - position_; }

  Error fault(Code code, std::string message, std::optional<uint64_t> offset) const {
    return {code, std::move(message), {result_.name, offset, item_}};
  }
  // A contradiction found at the byte that is read next, or at `offset`.
  Error corrupt(std::string message) const {
    return fault(Code::kCorrupt, std::move(message), position_);
  }
  Error corrupt_at(uint64_t offset, std::string message) const {
    return fault(Code::kCorrupt, std::move(message), offset);
  }

  Status check_left(uint64_t needed, std::string_view what) const {
    if (needed <= left()) return {};
    return corrupt(fmt::format("is cut short: {} takes {} bytes, and {} are left in the file", what,
                               needed, left()));
  }

  Status check_count(uint64_t count, uint64_t least_bytes, std::string_view what) const {
    if (count <= left() / least_bytes) return {};
    return corrupt(
        fmt::format("claims {} {}, of at least {} bytes each, but {} bytes are left in "
                    "the file",
                    count, what, least_bytes, left()));
  }

  template <typename T>
  Result<T> read(std::string_view what) {
    PHIDIAS_CHECK_OK(check_left(sizeof(T), what));
    return take<T>();
  }

  // The caller has checked that the bytes are there.
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  Result<std::string> read_string(std::string_view what, uint64_t limit = UINT64_MAX) {
    PHIDIAS_TRY(const uint64_t length, read<uint64_t>(what));
    PHIDIAS_CHECK_OK(check_left(length, what));
    if (length > limit) {
      return corrupt(fmt::format("{} has {} bytes; at most {} are allowed", what, length, limit));
    }
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + position_, length);
    position_ += length;
    return text;
  }

  Result<Counts> read_counts() {
    PHIDIAS_CHECK_OK(check_left(sizeof(kGgufMagic), "the magic number"));
    if (std::memcmp(bytes_.data(), kGgufMagic, sizeof(kGgufMagic)) != 0) {
      return corrupt("is no GGUF file: it does not begin with the letters GGUF");
    }
    position_ += sizeof(kGgufMagic);
    const uint64_t version_at = position_;
    PHIDIAS_TRY(result_.version, read<uint32_t>("the version"));
    if (result_.version != 0 && (result_.version & 0xFFFFU) == 0) {
      return fault(Code::kUnsupported,
                   "is a big-endian GGUF file; convert it to little-endian (gguf-convert-endian)",
                   version_at);
    }
    if (result_.version < kGgufOldestVersion || result_.version > kGgufNewestVersion) {
      return fault(Code::kUnsupported,
                   fmt::format("has GGUF version {}; versions {} to {} are read", result_.version,
                               kGgufOldestVersion, kGgufNewestVersion),
                   version_at);
    }
    Counts counts = {};
    PHIDIAS_TRY(counts.tensors, read<uint64_t>("the number of tensors"));
    PHIDIAS_TRY(counts.metadata, read<uint64_t>("the number of metadata entries"));
    PHIDIAS_CHECK_OK(check_count(counts.metadata, kLeastMetadataBytes, "metadata entries"));
    PHIDIAS_CHECK_OK(check_count(counts.tensors, kLeastTensorBytes, "tensors"));
    return counts;
  }

  Status read_pair() {
    item_.clear();
    PHIDIAS_TRY(std::string key, read_string("a key", kGgufMaxKeyBytes));
    item_ = key;
    const uint64_t value_at = position_;
    PHIDIAS_TRY(const auto type, read<uint32_t>("the type"));
    PHIDIAS_TRY(GgufValue value, read_value(static_cast<GgufType>(type)));
    value.encoded = bytes_.subspan(value_at, position_ - value_at);
    if (!result_.index_.emplace(key, result_.metadata.size()).second) {
      return corrupt("is listed twice among the metadata");
    }
    result_.metadata.emplace_back(std::move(key), std::move(value));
    return {};
  }

  template <typename Wide, typename Narrow>
  Result<GgufValue> read_number() {
    PHIDIAS_TRY(const auto value, read<Narrow>("the value"));
    return GgufValue{static_cast<Wide>(value), {}};
  }

  Result<GgufValue> read_value(GgufType type) {
    switch (type) {
      case GgufType::kUint8:
        return read_number<uint64_t, uint8_t>();
      case GgufType::kUint16:
        return read_number<uint64_t, uint16_t>();
      case GgufType::kUint32:
        return read_number<uint64_t, uint32_t>();
      case GgufType::kUint64:
        return read_number<uint64_t, uint64_t>();
      case GgufType::kInt8:
        return read_number<int64_t, int8_t>();
      case GgufType::kInt16:
        return read_number<int64_t, int16_t>();
      case GgufType::kInt32:
        return read_number<int64_t, int32_t>();
      case GgufType::kInt64:
        return read_number<int64_t, int64_t>();
      case GgufType::kFloat32:
        return read_number<double, float>();
      case GgufType::kFloat64:
        return read_number<double, double>();
      case GgufType::kBool: {
        PHIDIAS_TRY(const bool value, read_bool());
        return GgufValue{value, {}};
      }
      case GgufType::kString: {
        PHIDIAS_TRY(std::string text, read_string("the string"));
        return GgufValue{std::move(text), {}};
      }
      case GgufType::kArray:
        return read_array();
    }
    return corrupt_at(position_ - sizeof(uint32_t),
                      fmt::format("has the unknown value type {}", static_cast<uint32_t>(type)));
  }

  Result<bool> read_bool() {
    PHIDIAS_TRY(const auto byte, read<uint8_t>("the value"));
    if (byte > 1) {
      return corrupt_at(position_ - 1, fmt::format("must be 0 or 1 as a bool, found {}", byte));
    }
    return byte == 1;
  }

  template <typename Wide, typename Narrow>
  Result<GgufValue> read_numbers(uint64_t count) {
    PHIDIAS_CHECK_OK(check_count(count, sizeof(Narrow), "values"));
    std::vector<Wide> values(count);
    std::generate(values.begin(), values.end(), [this] { return take<Narrow>(); });
    return GgufValue{GgufValue::Array(std::move(values)), {}};
  }

  Result<GgufValue> read_array() {
    PHIDIAS_TRY(const auto type, read<uint32_t>("the type of the values"));
    PHIDIAS_TRY(const auto count, read<uint64_t>("the number of values"));
    switch (static_cast<GgufType>(type)) {
      case GgufType::kUint8:
        return read_numbers<uint64_t, uint8_t>(count);
      case GgufType::kUint16:
        return read_numbers<uint64_t, uint16_t>(count);
      case GgufType::kUint32:
        return read_numbers<uint64_t, uint32_t>(count);
      case GgufType::kUint64:
        return read_numbers<uint64_t, uint64_t>(count);
      case GgufType::kInt8:
        return read_numbers<int64_t, int8_t>(count);
      case GgufType::kInt16:
        return read_numbers<int64_t, int16_t>(count);
      case GgufType::kInt32:
        return read_numbers<int64_t, int32_t>(count);
      case GgufType::kInt64:
        return read_numbers<int64_t, int64_t>(count);
      case GgufType::kFloat32:
        return read_numbers<double, float>(count);
      case GgufType::kFloat64:
        return read_numbers<double, double>(count);
      case GgufType::kBool: {
        PHIDIAS_CHECK_OK(check_count(count, 1, "values"));
        std::vector<bool> values(count);
        for (uint64_t i = 0; i < count; ++i) {
          PHIDIAS_TRY(values[i], read_bool());
        }
        return GgufValue{GgufValue::Array(std::move(values)), {}};
      }
      case GgufType::kString: {
        PHIDIAS_CHECK_OK(check_count(count, kLeastStringBytes, "strings"));
        std::vector<std::string> values;
        values.reserve(count);
        for (uint64_t i = 0; i < count; ++i) {
          PHIDIAS_TRY(std::string text, read_string("a string of the array"));
          values.push_back(std::move(text));
        }
        return GgufValue{GgufValue::Array(std::move(values)), {}};
      }
      case GgufType::kArray:
        return corrupt_at(position_ - 12, "is an array of arrays, which no known key is");
    }
    return corrupt_at(position_ - 12, fmt::format("is an array of the unknown type {}", type));
  }

  Status read_alignment() {
    PHIDIAS_TRY(const auto alignment, result_.optional_unsigned(kGgufAlignmentKey));
    alignment_ = alignment.value_or(kGgufDefaultAlignment);
    if (std::has_single_bit(alignment_)) return {};
    item_ = kGgufAlignmentKey;
    return corrupt(fmt::format("must be a power of two, found {}", alignment_));
  }

  // Name, shape, type and offset; the data are placed once it is known where they begin.
  Status read_tensor() {
    item_.clear();
    TensorEntry entry;
    PHIDIAS_TRY(entry.name, read_string("the name of a tensor", kGgufMaxKeyBytes));
    item_ = entry.name;
    PHIDIAS_TRY(const auto rank, read<uint32_t>("the number of dimensions"));
    if (rank > kGgufMaxDimensions) {
      return corrupt(
          fmt::format("has {} dimensions; at most {} are allowed", rank, kGgufMaxDimensions));
    }
    for (uint32_t i = 0; i < rank; ++i) {
      PHIDIAS_TRY(const auto extent, read<uint64_t>("a dimension"));
      entry.shape.push_back(extent);
    }
    const uint64_t row_values = rank > 0 ? entry.shape.front() : 1;
    std::reverse(entry.shape.begin(), entry.shape.end());  // GGUF writes the innermost first

    PHIDIAS_TRY(const auto type, read<uint32_t>("the type"));
    const auto format = format_from_ggml(type);
    if (!format) {
      return fault(Code::kUnsupported,
                   fmt::format("has the tensor type {}; the types that are read are {}",
                               show_tensor_type(type), names_of_formats()),
                   position_ - sizeof(uint32_t));
    }
    entry.format = *format;
    const FormatRow& row = format_row(*format);
    if (row_values % row.block_values != 0) {
      return corrupt(fmt::format("has rows of {} values, which are no whole blocks of {} ({})",
                                 row_values, row.block_values, row.name));
    }
    const auto values = checked_product(entry.shape);
    const auto size = values ? checked_matrix_bytes(row, *values, row_values) : std::nullopt;
    if (!size) {
      return corrupt(fmt::format("has the shape [{}]: more values than can be counted",
                                 fmt::join(entry.shape, ", ")));
    }
    entry.bytes = *size;
    PHIDIAS_TRY(entry.offset, read<uint64_t>("the offset"));  // from the start of the data, for now
    if (entry.offset % alignment_ != 0) {
      return corrupt_at(
          position_ - sizeof(uint64_t),
          fmt::format("has the offset {}, which is no multiple of the file's alignment {}",
                      entry.offset, alignment_));
    }
    result_.tensors.push_back(std::move(entry));
    return {};
  }

  Status place_data() {
    const uint64_t padding = (alignment_ - position_ % alignment_) % alignment_;
    for (TensorEntry& entry : result_.tensors) {
      item_ = entry.name;
      const auto data_start = checked_add(position_, padding);
      const auto begin = data_start ? checked_add(*data_start, entry.offset) : std::nullopt;
      const auto end = begin ? checked_add(*begin, entry.bytes) : std::nullopt;
      if (!end || *end > bytes_.size()) {
        return fault(Code::kCorrupt,
                     fmt::format("ends at byte {}, but the file has {} bytes: it is cut short",
                                 end ? std::to_string(*end) : "2^64 or later", bytes_.size()),
                     begin);
      }
      entry.offset = *begin;
      entry.data = bytes_.data() + entry.offset;
    }
    return check_overlap();
  }

  Status check_overlap() {
    std::vector<size_t> order(result_.tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return result_.tensors[a].offset < result_.tensors[b].offset;
    });
    const TensorEntry* before = nullptr;
    for (const size_t i : order) {
      const TensorEntry& entry = result_.tensors[i];
      if (entry.bytes == 0) continue;
      if (before != nullptr && entry.offset < before->offset + before->bytes) {
        item_ = entry.name;
        return corrupt_at(entry.offset, fmt::format("overlaps the tensor {}, which ends at byte {}",
                                                    before->name, before->offset + before->bytes));
      }
      before = &entry;
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
  uint64_t alignment_ = kGgufDefaultAlignment;
  std::string item_;  // key or tensor being read, for errors
  GgufFile result_;
};

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  PHIDIAS_TRY(auto mapped, MappedFile::open(path));
  PHIDIAS_TRY(auto parsed, parse(mapped->bytes(), path.string()));
  parsed.file = std::move(mapped);
  return parsed;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  return GgufParser(bytes, name).parse();
}

}  // namespace phidias
