#include "edit_option.h"

#include "input_options.h"

namespace phidias::cli {

void declare_edits(CommandOptions& command, std::vector<std::string>& edits) {
  command
      .add_option("--edit", edits,
                  "A JSON file of edits, or one edit such as 'layers[12].layer_output += 4 * "
                  "joy.gguf @ decode', 'layers[3].attention_head_outputs[head=7] = 0'. Repeatable")
      .one_at_a_time();
}

Result<Edits> read_edits(const std::vector<std::string>& arguments) {
  Edits edits;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    const bool file = argument == "-" || argument.ends_with(".json") ||
                      std::filesystem::exists(argument, ignored);
    Result<Edits> read = Edits();
    if (file) {
      auto text = read_input(argument);
      if (!text.ok()) return std::move(text).error();
      read = edits_from_json(*text, TensorFiles::kAllowed, argument);
    } else {
      read = edits_from_line(argument, TensorFiles::kAllowed);
    }
    if (!read.ok()) return read;
    edits += *read;
  }
  return edits;
}

}  // namespace phidias::cli
