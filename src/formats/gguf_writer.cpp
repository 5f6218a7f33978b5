#include "formats/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/try.h"
#include "formats/checked.h"

namespace phidias {
namespace {

void append_bytes(std::vector<std::byte>& out, const void* data, size_t size) {
  if (size == 0) return;
  const auto* first = static_cast<const std::byte*>(data);
  out.insert(out.end(), first, first + size);
}

template <typename T>
void append_value(std::vector<std::byte>& out, T value) {
  append_bytes(out, &value, sizeof(T));
}

uint64_t padding_after(uint64_t size, uint64_t alignment) {
  return (alignment - size % alignment) % alignment;
}

}  // namespace

GgufHeader::GgufHeader(uint32_t alignment) : alignment_(alignment) {
  PHIDIAS_ASSERT(std::has_single_bit(alignment));
  if (alignment != kGgufDefaultAlignment) add(kGgufAlignmentKey, alignment);
}

void GgufHeader::append(const void* data, size_t size) { append_bytes(metadata_, data, size); }

void GgufHeader::append_text(std::vector<std::byte>& out, std::string_view text) const {
  append_value<uint64_t>(out, text.size());
  append_bytes(out, text.data(), text.size());
}

void GgufHeader::begin_value(std::string_view key, GgufType type) {
  PHIDIAS_ASSERT(keys_.emplace(key).second);
  append_text(metadata_, key);
  append_value(metadata_, type);
  ++metadata_count_;
}

void GgufHeader::begin_array(std::string_view key, GgufType type, uint64_t count) {
  begin_value(key, GgufType::kArray);
  append_value(metadata_, type);
  append_value(metadata_, count);
}

void GgufHeader::add(std::string_view key, std::string_view text) {
  begin_value(key, GgufType::kString);
  append_text(metadata_, text);
}

void GgufHeader::add_array(std::string_view key, std::span<const std::string> texts) {
  begin_array(key, GgufType::kString, texts.size());
  for (const std::string& text : texts) append_text(metadata_, text);
}

void GgufHeader::add_encoded(std::string_view key, std::span<const std::byte> encoded) {
  PHIDIAS_ASSERT(keys_.emplace(key).second);
  append_text(metadata_, key);
  append(encoded.data(), encoded.size());
  ++metadata_count_;
}

void GgufHeader::add_tensor(std::string_view name, Format format, std::span<const uint64_t> shape) {
  const FormatRow& row = format_row(format);
  const uint64_t row_values = shape.empty() ? 1 : shape.back();
  const auto values = checked_product(shape);
  PHIDIAS_ASSERT(names_.emplace(name).second);
  PHIDIAS_ASSERT(shape.size() <= kGgufMaxDimensions);
  PHIDIAS_ASSERT(row_values % row.block_values == 0);
  PHIDIAS_ASSERT(values.has_value());
  const auto size = checked_matrix_bytes(row, *values, row_values);
  PHIDIAS_ASSERT(size.has_value());

  append_text(directory_, name);
  append_value(directory_, static_cast<uint32_t>(shape.size()));
  for (size_t i = shape.size(); i-- > 0;) append_value(directory_, shape[i]);
  append_value(directory_, row.ggml_type);
  append_value(directory_, data_end_);
  tensor_bytes_.push_back(*size);
  data_end_ += *size + padding_after(*size, alignment_);
}

std::vector<std::byte> GgufHeader::bytes() const {
  std::vector<std::byte> out;
  append_bytes(out, kGgufMagic, sizeof(kGgufMagic));
  append_value(out, kGgufNewestVersion);
  append_value<uint64_t>(out, tensor_bytes_.size());
  append_value(out, metadata_count_);
  append_bytes(out, metadata_.data(), metadata_.size());
  append_bytes(out, directory_.data(), directory_.size());
  out.resize(out.size() + padding_after(out.size(), alignment_));
  return out;
}

Result<GgufWriter> GgufWriter::create(const std::filesystem::path& path, const GgufHeader& header) {
  PHIDIAS_TRY(OutputFile file, OutputFile::create(path));
  PHIDIAS_CHECK_OK(file.write(header.bytes()));
  return GgufWriter(std::move(file), header);
}

Status GgufWriter::write(std::span<const std::byte> bytes) {
  PHIDIAS_CHECK_OK(finish_tensors());
  const uint64_t left =
      tensor_ < tensor_bytes_.size() ? tensor_bytes_[tensor_] - done_in_tensor_ : 0;
  if (bytes.size() > left) {
    return Error{Code::kInternal,
                 fmt::format("{} bytes were to be written where tensor {} has {} left",
                             bytes.size(), tensor_, left),
                 {file_.path().string(), file_.bytes_written(), {}}};
  }
  PHIDIAS_CHECK_OK(file_.write(bytes));
  done_in_tensor_ += bytes.size();
  return finish_tensors();
}

// Pads after tensors that are complete, those without data among them.
Status GgufWriter::finish_tensors() {
  while (tensor_ < tensor_bytes_.size() && done_in_tensor_ == tensor_bytes_[tensor_]) {
    const std::vector<std::byte> padding(padding_after(done_in_tensor_, alignment_));
    PHIDIAS_CHECK_OK(file_.write(padding));
    ++tensor_;
    done_in_tensor_ = 0;
  }
  return {};
}

Status GgufWriter::commit() {
  PHIDIAS_CHECK_OK(finish_tensors());
  if (tensor_ < tensor_bytes_.size()) {
    return Error{Code::kInternal,
                 fmt::format("{} of {} tensors were written", tensor_, tensor_bytes_.size()),
                 {file_.path().string(), file_.bytes_written(), {}}};
  }
  return file_.commit();
}

}  // namespace phidias
