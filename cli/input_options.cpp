#include "input_options.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace phidias::cli {

void InputOptions::declare(CommandOptions& command, bool with_text) {
  CommandOptions group = command.add_group("input", "What to read: exactly one of these");
  ids_option = group.add_option("--ids", ids, "Token ids, separated by commas");
  ids_file_option = group.add_option("--ids-file", ids_file,
                                     "A file of token ids, separated by commas or white space");
  if (with_text) {
    text_option = group.add_option("--text", text, "Text");
    file_option = group.add_option("--file", file, "A file of text; - for standard input");
  }
  group.require(0, 1);
}

Result<std::string> InputOptions::read_text() const {
  if (!file.empty()) return read_input(file);
  return text;
}

Result<std::vector<TokenId>> InputOptions::read_ids(const Tokenizer* tokenizer,
                                                    const std::vector<ImageHandle>& images) const {
  if (!ids_file.empty()) {
    auto content = read_input(ids_file);
    if (!content.ok()) return std::move(content).error();
    return parse_ids(*content, ids_file);
  }
  if (is_text()) {
    if (tokenizer == nullptr)
      return Error{
          Code::kNotFound, "the checkpoint has no tokenizer to encode text with; give --ids", {}};
    auto content = read_text();
    if (!content.ok()) return std::move(content).error();
    return encode_with_images(*tokenizer, *content, images);
  }
  if (!ids_option.given()) {
    const char* ways =
        !text_option.declared() ? "--ids or --ids-file" : "--text, --file, --ids or --ids-file";
    return Error{Code::kInvalidArgument, std::string("there is no input; give ") + ways, {}};
  }
  return parse_ids(ids, "--ids");
}

Result<std::vector<TokenId>> parse_ids(const std::string& text, const std::string& place) {
  std::vector<TokenId> ids;
  size_t at = 0;
  while (true) {
    at = text.find_first_not_of(", \t\r\n", at);
    if (at == std::string::npos) return ids;
    size_t end = text.find_first_of(", \t\r\n", at);
    if (end == std::string::npos) end = text.size();
    TokenId id = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + end, id);
    if (read.ec != std::errc() || read.ptr != text.data() + end) {
      return Error{Code::kInvalidArgument,
                   "\"" + text.substr(at, std::min<size_t>(end - at, 40)) + "\" is not a token id",
                   {{}, {}, place}};
    }
    ids.push_back(id);
    at = end;
  }
}

Result<std::string> read_input(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored)) {
    return Error{Code::kNotFound,
                 std::string("cannot be read: ") + (file ? "is a folder" : std::strerror(errno)),
                 {path, {}, {}}};
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace phidias::cli
