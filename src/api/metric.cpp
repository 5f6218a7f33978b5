#include "phidias/metric.h"

#include <cmath>

#include "base/json.h"
#include "base/try.h"
#include "phidias/model.h"

namespace phidias {
namespace {

Metric of_token(MetricTerm::Kind kind, TokenId token, Positions at, double weight = 1) {
  MetricTerm term;
  term.kind = kind;
  term.weight = weight;
  term.at = std::move(at);
  term.token = token;
  return Metric(std::move(term));
}

// One term of the list, or the one object.
class Reader {
 public:
  Reader(const Json& json, const Model& model, std::string file, std::string path)
      : json_(json), model_(model), file_(std::move(file)), path_(std::move(path)) {}

  Result<Metric> read() const {
    if (!json_.is_object()) return fault("a metric is an object or a list of objects");
    Positions at = kLast;
    if (json_.contains("at")) {
      PHIDIAS_TRY(at, positions(json_["at"]));
    }
    double weight = 1;
    if (json_.contains("weight")) {
      PHIDIAS_TRY(weight, number(json_["weight"], "weight"));
    }
    std::optional<Metric> metric;
    for (const auto& [key, value] : json_.items()) {
      if (key == "at" || key == "weight") continue;
      if (metric) return fault("is one too many: a term is of one kind", key);
      PHIDIAS_TRY(metric, of_kind(key, value, at));
    }
    if (!metric) return fault("has none of logit, logit_diff, log_prob, kl and dot");
    return weight * *metric;
  }

 private:
  Error fault(std::string message, const std::string& key = {}) const {
    return {Code::kInvalidArgument,
            std::move(message),
            {file_, {}, path_ + (key.empty() ? "" : "/" + key)}};
  }

  Result<Metric> of_kind(const std::string& key, const Json& value, const Positions& at) const {
    if (key == "logit" || key == "log_prob") {
      PHIDIAS_TRY(const TokenId token, this->token(value, key));
      return key == "logit" ? logit(token, at) : log_prob(token, at);
    }
    if (key == "logit_diff") {
      if (!value.is_array() || value.size() != 2) return fault("is a pair of tokens", key);
      PHIDIAS_TRY(const TokenId a, token(value[0], key));
      PHIDIAS_TRY(const TokenId b, token(value[1], key));
      return logit_difference(a, b, at);
    }
    if (key == "kl") {
      PHIDIAS_TRY(auto reference, numbers(value, key));
      return divergence(std::move(reference), at);
    }
    if (key == "dot") {
      if (!value.is_object() || !value.contains("value") || !value["value"].is_string() ||
          !value.contains("vector")) {
        return fault("has \"value\" and \"vector\"", key);
      }
      auto ref = parse_value(value["value"].get<std::string>());
      if (!ref.ok()) return fault(ref.error().message, key + "/value");
      // The positions of the value's own brackets hold where there are any.
      if (ref->selection.at == Positions()) ref->selection.at = at;
      PHIDIAS_TRY(auto vector, numbers(value["vector"], key + "/vector"));
      return dot(*ref, std::move(vector));
    }
    return fault("is not known here; there are logit, logit_diff, log_prob, kl, dot, at, weight",
                 key);
  }

  Result<double> number(const Json& value, const std::string& key) const {
    if (!value.is_number()) return fault("must be a number", key);
    return value.get<double>();
  }
  Result<std::vector<float>> numbers(const Json& value, const std::string& key) const {
    if (!value.is_array() || value.empty()) return fault("must be a list of numbers", key);
    std::vector<float> list;
    for (const Json& entry : value) {
      PHIDIAS_TRY(const double x, number(entry, key));
      if (!std::isfinite(static_cast<float>(x))) return fault("has a number beyond floats", key);
      list.push_back(static_cast<float>(x));
    }
    return list;
  }
  Result<TokenId> token(const Json& value, const std::string& key) const {
    if (value.is_string()) {
      auto single = single_token(model_, value.get<std::string>());
      if (!single.ok()) return fault(single.error().message, key);
      return *single;
    }
    if (!value.is_number_integer()) return fault("must be a token's id or its text", key);
    const auto id = value.get<int64_t>();
    if (id < 0 || id > std::numeric_limits<TokenId>::max()) return fault("is no token id", key);
    return static_cast<TokenId>(id);
  }
  Result<Positions> positions(const Json& value) const {
    if (value.is_number_integer()) return Positions(value.get<int64_t>());
    if (value.is_string()) {
      auto parsed = Positions::parse(value.get<std::string>());
      if (!parsed.ok()) return fault(parsed.error().message, "at");
      return *parsed;
    }
    const Error wrong = fault("must be a choice of positions, as in edits", "at");
    if (!value.is_array() || value.empty()) return wrong;
    std::vector<int64_t> list;
    for (const Json& entry : value) {
      if (!entry.is_number_integer()) return wrong;
      list.push_back(entry.get<int64_t>());
    }
    return Positions(std::move(list));
  }

  const Json& json_;
  const Model& model_;
  std::string file_;
  std::string path_;
};

}  // namespace

Metric logit(TokenId token, Positions at) {
  return of_token(MetricTerm::Kind::kLogit, token, std::move(at));
}

Metric logit_difference(TokenId a, TokenId b, Positions at) {
  const Metric first = logit(a, at);
  return first - logit(b, std::move(at));
}

Metric log_prob(TokenId token, Positions at) {
  return of_token(MetricTerm::Kind::kLogProb, token, std::move(at));
}

Metric log_prob_of(std::span<const TokenId> tokens, size_t begin) {
  Metric metric;
  for (size_t i = std::max<size_t>(begin, 1); i < tokens.size(); ++i)
    metric += log_prob(tokens[i], Positions(static_cast<int64_t>(i - 1)));
  return metric;
}

Metric divergence(std::vector<float> reference, Positions at) {
  MetricTerm term;
  term.kind = MetricTerm::Kind::kDivergence;
  term.at = std::move(at);
  term.vector = std::move(reference);
  return Metric(std::move(term));
}

Metric dot(const ValueRef& value, std::vector<float> vector) {
  MetricTerm term;
  term.kind = MetricTerm::Kind::kDot;
  term.value = value;
  term.vector = std::move(vector);
  return Metric(std::move(term));
}

Result<TokenId> single_token(const Model& model, std::string_view text) {
  const auto tokenizer = model.tokenizer();
  if (tokenizer == nullptr) {
    return Error{Code::kNotFound, "the model has no tokenizer; give the token's id", {}};
  }
  const auto alone = [&](std::string_view part) -> std::optional<TokenId> {
    const std::vector<TokenId> ids = tokenizer->encode(part);
    if (ids.size() != 1) return std::nullopt;
    return ids.front();
  };
  if (const auto id = alone(text)) return *id;
  if (text.starts_with(' ')) {
    if (const auto id = alone(text.substr(1))) return *id;
  }
  return Error{Code::kInvalidArgument,
               "\"" + std::string(text) + "\" is not one token; give one that is, or its id",
               {}};
}

Result<Metric> metric_from_json(std::string_view json, const Model& model,
                                const std::string& file) {
  PHIDIAS_TRY(const Json parsed, parse_json(json, file));
  if (!parsed.is_array()) return Reader(parsed, model, file, "").read();
  Metric metric;
  for (size_t i = 0; i < parsed.size(); ++i) {
    PHIDIAS_TRY(const Metric term, Reader(parsed[i], model, file, "/" + std::to_string(i)).read());
    metric += term;
  }
  return metric;
}

}  // namespace phidias
