#include "usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

namespace phidias::cli {
namespace {

constexpr size_t kMostSuggestions = 3;

// The options of a command, those of its groups too.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> options = command.get_options();
  const auto groups =
      command.get_subcommands([](const CLI::App* part) { return part->get_name().empty(); });
  for (const CLI::App* group : groups) {
    const auto more = options_of(*group);
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

// Null where the command has none of this name.
const CLI::Option* option_named(const CLI::App& command, std::string_view name) {
  for (const CLI::Option* option : options_of(command)) {
    const auto& names = option->get_lnames();
    if (std::find(names.begin(), names.end(), name) != names.end()) return option;
  }
  return nullptr;
}

std::string shortest_name(const CLI::Option& option) {
  return option.get_snames().empty() ? option.get_name() : "-" + option.get_snames().front();
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Letters that one of them has and the other has not, wherever they stand: slips of the keyboard
// leave the others.
size_t letters_apart(std::string a, std::string b) {
  std::string apart;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(apart));
  return apart.size();
}

bool may_mean(const std::string& word, const std::string& name) {
  if (word.empty() || word.front() != name.front()) return false;
  if (name.size() > 1 && (name.starts_with(word) || word.starts_with(name))) return true;
  return letters_apart(word, name) <= std::max<size_t>(1, word.size() / 3);
}

// Where a help text has this word as a whole; npos where it has not.
size_t place_in_help(const std::string& help, const std::string& word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = help.find(word); at != std::string::npos; at = help.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_letter(help[at - 1])) && (end == help.size() || !is_letter(help[end])))
      return at;
  }
  return std::string::npos;
}

std::string did_you_mean(std::vector<std::string> names) {
  if (names.size() > kMostSuggestions) names.resize(kMostSuggestions);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "; did you mean " : ", ") + name;
  return text.empty() ? text : text + "?";
}

// Options of a name like the given one; then those whose help has it as a word, the earlier the
// better, for the same thing has other names elsewhere.
std::string unknown_option(const CLI::App& command, const std::string& given) {
  const std::string name = given.substr(0, given.find('='));
  const std::string word = lower(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::vector<std::string> alike;
  std::multimap<size_t, std::string> about;
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& candidate : option->get_lnames()) {
      const size_t place = place_in_help(lower(option->get_description()), word);
      if (may_mean(word, candidate))
        alike.push_back("--" + candidate);
      else if (word.size() > 2 && place != std::string::npos)
        about.emplace(place, "--" + candidate);
    }
  }
  for (const auto& [place, candidate] : about) alike.push_back(candidate);
  return command.get_name() + " has no option " + name + did_you_mean(std::move(alike));
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> alike;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (may_mean(lower(word), command->get_name())) alike.push_back(command->get_name());
  }
  return "there is no command \"" + word + "\"" + did_you_mean(std::move(alike));
}

// Which option a word was probably meant for that stands by itself.
std::string place_of(const CLI::App& command, const std::string& word) {
  const CLI::Option* model = option_named(command, "model");
  std::error_code ignored;
  const bool exists = std::filesystem::exists(word, ignored);
  const bool like_model = exists || word.ends_with(".gguf") || word.find('/') != std::string::npos;
  if (model != nullptr && model->count() == 0 && like_model) return "the model is given with -m";
  if (exists && option_named(command, "file") != nullptr) return "a file is given with --file";
  for (const char* name : {"prompt", "text"}) {
    const CLI::Option* text = option_named(command, name);
    if (text == nullptr || !text->get_type_name().starts_with("TEXT")) continue;
    return text->count() > 0 ? "a text of several words stands in quotes"
                             : "a text is given with " + shortest_name(*text);
  }
  return "";
}

std::string stray_word(const CLI::App& command, const std::string& word) {
  const std::string place = place_of(command, word);
  return command.get_name() + " does not take \"" + word + "\" by itself" +
         (place.empty() ? "" : "; " + place);
}

std::string kind_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("UINT")    ? "a whole number, not negative"
         : type.starts_with("INT")   ? "a whole number"
         : type.starts_with("FLOAT") ? "a number"
                                     : type;
}

// "a,b" between the brackets of a message, as one reads it.
std::string listed(const std::string& message, char opening, char closing) {
  const size_t open = message.find(opening) + 1;
  std::string list = message.substr(open, message.find(closing, open) - open);
  for (size_t at = list.find(','); at != std::string::npos; at = list.find(',', at + 1))
    list.insert(at + 1, " ");
  return list;
}

// A fault of one option; empty where it is another's, or the parser's own wording does.
std::string option_fault(const CLI::Option& option, const CLI::Error& fault) {
  const std::string message = fault.what();
  const std::string name = option.get_name();
  const std::string unconverted = "Could not convert: " + name + " = ";
  if (message == name + " is required") return message + ": " + option.get_description();
  if (message.starts_with(unconverted)) {
    const std::string value = message.substr(unconverted.size());
    return name + " takes " + kind_of(option) + "; \"" + value + "\" is none";
  }
  if (const size_t choices = message.find(" not in {");
      choices != std::string::npos && message.starts_with(name + ": ")) {
    const size_t begin = name.size() + 2;
    return name + " takes one of " + listed(message, '{', '}') + "; \"" +
           message.substr(begin, choices - begin) + "\" is none";
  }
  if (fault.get_name() == "ArgumentMismatch" && message.starts_with(name + ": "))
    return name + " has no value";
  return "";
}

std::string reworded(const CLI::App& command, const CLI::Error& fault) {
  std::string message = fault.what();
  if (fault.get_name() == "RequiredError" && message.find('[') != std::string::npos) {
    const bool none = message.ends_with("] is required");
    return (none ? "give one of " : "give only one of ") + listed(message, '[', ']');
  }
  if (const std::string word = " excludes "; message.find(word) != std::string::npos)
    return message.replace(message.find(word), word.size(), " does not go with ");
  for (const CLI::Option* option : options_of(command)) {
    std::string better = option_fault(*option, fault);
    if (!better.empty()) return better;
  }
  return message;
}

// The argument of a positional option that did not take it.
std::string refused_word(const CLI::App& command, const CLI::Error& fault) {
  if (fault.get_name() != "ValidationError") return "";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->count() > 0 &&
        std::string_view(fault.what()).starts_with(option->get_name() + ": "))
      return option->results().front();
  }
  return "";
}

// "-p -n 5": an option whose value is missing takes the next option for it.
std::string swallowed_option(const CLI::App& command) {
  const auto options = options_of(command);
  for (const CLI::Option* option : options) {
    const std::string taken = option->count() == 1 ? option->results().front() : "";
    const bool is_name = std::any_of(options.begin(), options.end(), [&](const CLI::Option* other) {
      return taken.starts_with('-') && other->check_name(taken);
    });
    if (is_name) return option->get_name() + " has no value before " + taken;
  }
  return "";
}

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

std::string fault_of(const CLI::App& app, const CLI::Error& fault) {
  const auto chosen = app.get_subcommands();
  const auto early = app.remaining();  // before the command, or in its place
  if (chosen.empty()) {
    const auto word = std::find_if_not(early.begin(), early.end(), is_option);
    if (word != early.end()) return unknown_command(app, *word);
    if (!early.empty()) return unknown_option(app, early.front());
    return "a command is needed, such as `phidias chat -m MODEL`";
  }
  const CLI::App& command = *chosen.front();
  if (!early.empty()) {
    return "\"" + early.front() +
           "\" stands before the command; options come after it, as in `phidias " +
           command.get_name() + " " + early.front() + " ...`";
  }
  const auto unknown = command.remaining();
  const auto option = std::find_if(unknown.begin(), unknown.end(), is_option);
  if (option != unknown.end()) return unknown_option(command, *option);
  if (!unknown.empty()) {
    std::string swallowed = swallowed_option(command);
    return swallowed.empty() ? stray_word(command, unknown.front()) : swallowed;
  }
  const std::string refused = refused_word(command, fault);
  const std::string place = refused.empty() ? "" : place_of(command, refused);
  return reworded(command, fault) + (place.empty() ? "" : "; " + place);
}

}  // namespace

std::string usage_fault(const CLI::App* app, const CLI::Error& fault) {
  const auto chosen = app->get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen.front()->get_name() + " ";
  return "phidias: " + fault_of(*app, fault) + "; see `phidias " + command + "--help`\n";
}

}  // namespace phidias::cli
