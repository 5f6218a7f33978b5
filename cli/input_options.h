// The text or the ids that a command reads.
#pragma once

#include <string>
#include <vector>

#include "command_options.h"
#include "phidias/prompt.h"

namespace phidias::cli {

// --ids, --ids-file, --text, --file: exactly one of them.
struct InputOptions {
  std::string ids;
  std::string ids_file;
  std::string text;
  std::string file;
  Option text_option;
  Option ids_option;
  Option ids_file_option;
  Option file_option;

  // `with_text` false: ids alone.
  void declare(CommandOptions& command, bool with_text = true);
  bool given() const {
    return !ids_file.empty() || !file.empty() || ids_option.given() || text_option.given();
  }
  bool is_text() const { return !file.empty() || text_option.given(); }
  Result<std::string> read_text() const;
  // Ids as given, or the text's by the model's tokenizer, with images where it has tags.
  Result<std::vector<TokenId>> read_ids(const Tokenizer* tokenizer,
                                        const std::vector<ImageHandle>& images = {}) const;
};

// "1,2,3" or white space between. Errors: kInvalidArgument naming the first thing that is no id.
Result<std::vector<TokenId>> parse_ids(const std::string& text, const std::string& place);

// The whole of standard input or of a file.
Result<std::string> read_input(const std::string& path);

}  // namespace phidias::cli
