// A number made of what a run gives, to be differentiated: a weighted sum of terms, plain data.
//
//   Metric metric = logit_difference(paris, rome);
//   metric += -0.1 * divergence(reference);
//   metric += dot(kValues.layers[8].layer_output.at(kLast), probe);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"
#include "phidias/values.h"

namespace phidias {

class Model;

struct MetricTerm {
  enum class Kind : uint8_t {
    kLogit,       // the logit of `token`
    kLogProb,     // its log-probability
    kDivergence,  // KL(vector || softmax of the logits)
    kDot,         // the dot product of `value` with `vector`
  };
  Kind kind = Kind::kLogit;
  double weight = 1;
  Positions at = kLast;  // the sum over these positions; of kDot, the value's own hold
  TokenId token = 0;
  std::vector<float> vector;  // kDivergence: probabilities [vocab]; kDot: as many as the value has
                              // entries at one position, heads one after another
  ValueRef value;

  bool operator==(const MetricTerm&) const = default;
};

class Metric {
 public:
  Metric() = default;
  explicit Metric(MetricTerm term) : terms_{std::move(term)} {}
  Metric& operator+=(const Metric& other) {
    terms_.insert(terms_.end(), other.terms_.begin(), other.terms_.end());
    return *this;
  }
  Metric& operator*=(double factor) {
    for (MetricTerm& term : terms_) term.weight *= factor;
    return *this;
  }
  const std::vector<MetricTerm>& terms() const { return terms_; }
  bool operator==(const Metric&) const = default;

 private:
  std::vector<MetricTerm> terms_;
};
inline Metric operator+(Metric a, const Metric& b) { return a += b; }
inline Metric operator-(Metric a, const Metric& b) { return a += Metric(b) *= -1; }
inline Metric operator*(double factor, Metric metric) { return metric *= factor; }

Metric logit(TokenId token, Positions at = kLast);
Metric logit_difference(TokenId a, TokenId b, Positions at = kLast);
Metric log_prob(TokenId token, Positions at = kLast);
// The log-probability of tokens [begin, size) given those before them; the run's tokens must begin
// with all but the last. begin at least 1.
Metric log_prob_of(std::span<const TokenId> tokens, size_t begin = 1);
Metric divergence(std::vector<float> reference, Positions at = kLast);
Metric dot(const ValueRef& value, std::vector<float> vector);

// The one token that `text` is, as it stands or without its leading space. Errors:
// kInvalidArgument where it is none; kNotFound without a tokenizer.
Result<TokenId> single_token(const Model& model, std::string_view text);

// JSON: an object with one of "logit", "logit_diff" [a, b], "log_prob", "kl" (probabilities),
// "dot" {"value", "vector"}, and "at", "weight"; or a list of such objects, their sum. Tokens are
// ids, or strings that single_token() takes. Errors: kInvalidArgument with the JSON path, and
// single_token()'s.
Result<Metric> metric_from_json(std::string_view json, const Model& model,
                                const std::string& file = {});

}  // namespace phidias
