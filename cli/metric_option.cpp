#include "metric_option.h"

#include <nlohmann/json.hpp>

#include "input_options.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::json;

// "logit_diff( Paris, Rome)": a token is its text as it stands between commas, or its id.
std::optional<Json> from_line(const std::string& line) {
  const size_t open = line.find('(');
  if (open == std::string::npos || !line.ends_with(')')) return std::nullopt;
  const std::string name = line.substr(0, open);
  if (name != "logit_diff" && name != "logit" && name != "log_prob") return std::nullopt;
  Json tokens = Json::array();
  for (size_t at = open + 1; at < line.size();) {
    const size_t end = std::min(line.find(',', at), line.size() - 1);
    const std::string token = line.substr(at, end - at);
    const size_t digits = token.find_first_not_of(' ');
    const bool id = digits != std::string::npos &&
                    token.find_first_not_of("0123456789", digits) == std::string::npos;
    tokens.push_back(id && token.size() - digits < 10 ? Json(std::stoi(token)) : Json(token));
    at = end + 1;
  }
  if (name == "logit_diff") return Json{{name, tokens}};
  if (tokens.size() != 1) return std::nullopt;
  return Json{{name, tokens.front()}};
}

}  // namespace

Option declare_metric(CommandOptions& command, std::string& metric) {
  return command.add_option("--metric", metric,
                            "What is measured: 'logit_diff( Paris, Rome)', 'logit(ID)', "
                            "'log_prob( Paris)', JSON such as {\"logit_diff\": [\" Paris\", "
                            "\" Rome\"], \"at\": \"last\"}, or a file of it");
}

Result<Metric> read_metric(const std::string& argument, const Model& model) {
  if (argument.starts_with('{') || argument.starts_with('['))
    return metric_from_json(argument, model);
  if (const auto json = from_line(argument))
    return metric_from_json(json->dump(-1, ' ', false, Json::error_handler_t::replace), model);
  auto text = read_input(argument);
  if (!text.ok()) {
    return Error{Code::kInvalidArgument,
                 "\"" + argument +
                     "\" is no metric such as 'logit_diff( Paris, Rome)', and no file of one that "
                     "can be read",
                 {{}, {}, "--metric"}};
  }
  return metric_from_json(*text, model, argument);
}

}  // namespace phidias::cli
