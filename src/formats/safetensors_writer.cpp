#include "formats/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/json.h"
#include "base/try.h"
#include "formats/checked.h"
#include "formats/safetensors_dtype.h"

namespace phidias {
namespace {

constexpr size_t kDataAlignment = 8;
constexpr std::string_view kMetadataName = "__metadata__";

std::optional<uint64_t> bytes_of(const SafetensorsHeader::Tensor& tensor, uint64_t bits) {
  const auto values = checked_product(tensor.shape);
  const auto all_bits = values ? checked_multiply(*values, bits) : std::nullopt;
  if (!all_bits || *all_bits % 8 != 0) return std::nullopt;
  return *all_bits / 8;
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path,
                                                    const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[std::string(kMetadataName)] = header.metadata;
  uint64_t end = 0;
  for (const SafetensorsHeader::Tensor& tensor : header.tensors) {
    const auto invalid = [&](std::string message) {
      return Error{Code::kInvalidArgument, std::move(message), {path.string(), {}, tensor.name}};
    };
    if (tensor.name == kMetadataName) return invalid("is no name for a tensor");
    if (json.contains(tensor.name)) return invalid("cannot be written twice to one file");
    const auto bits = safetensors_bits(tensor.dtype);
    if (!bits)
      return invalid(fmt::format("has the dtype {}, which safetensors has not", tensor.dtype));
    const auto size = bytes_of(tensor, *bits);
    const auto next = size ? checked_add(end, *size) : std::nullopt;
    if (!next) return invalid("has a shape that is no countable number of whole bytes");
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {end, *next}}};
    end = *next;
  }
  std::string text = dump_json(json);
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');

  PHIDIAS_TRY(OutputFile file, OutputFile::create(path));
  const uint64_t length = text.size();
  PHIDIAS_CHECK_OK(file.write(std::as_bytes(std::span(&length, 1))));
  PHIDIAS_CHECK_OK(file.write(text));
  return SafetensorsWriter(std::move(file), end);
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > left_) {
    return Error{
        Code::kInternal,
        fmt::format("{} bytes were to be written where {} were announced", bytes.size(), left_),
        {file_.path().string(), file_.bytes_written(), {}}};
  }
  left_ -= bytes.size();
  return file_.write(bytes);
}

Status SafetensorsWriter::commit() {
  if (left_ > 0) {
    return Error{Code::kInternal,
                 fmt::format("{} bytes that were announced were never written", left_),
                 {file_.path().string(), file_.bytes_written(), {}}};
  }
  return file_.commit();
}

Status write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsData> tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const SafetensorsData& a, const SafetensorsData& b) {
                     return safetensors_bits(a.tensor.dtype) > safetensors_bits(b.tensor.dtype);
                   });
  SafetensorsHeader header;
  header.metadata = metadata;
  for (const SafetensorsData& data : tensors) {
    const auto bits = safetensors_bits(data.tensor.dtype);
    if (bits && bytes_of(data.tensor, *bits) != data.bytes.size()) {
      return Error{Code::kInternal,
                   fmt::format("has {} bytes, which its shape and dtype do not", data.bytes.size()),
                   {path.string(), {}, data.tensor.name}};
    }
    header.tensors.push_back(data.tensor);
  }
  PHIDIAS_TRY(SafetensorsWriter writer, SafetensorsWriter::create(path, header));
  for (const SafetensorsData& data : tensors) PHIDIAS_CHECK_OK(writer.write(data.bytes));
  return writer.commit();
}

}  // namespace phidias
