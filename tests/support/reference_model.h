// A tiny checkpoint with the numbers of its reference, in exact numerics: what the tests of the
// relatives have in common.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "api/engine_impl.h"
#include "engine/stepper.h"
#include "model/taps.h"
#include "phidias/engine.h"
#include "support/reference.h"
#include "support/tensors.h"

namespace phidias::test {

// Everything that one sequence passes by rows, row after row.
class SiteRecorder : public RunTaps {
 public:
  SiteMask sites(size_t) const override { return ~kPatternSites; }
  void visit(Site site, size_t layer, const SiteRows& rows) override {
    std::vector<float>& values = values_[{site, layer}];
    for (size_t r = 0; r < rows.rows; ++r) {
      const float* row = rows.data + r * rows.stride;
      values.insert(values.end(), row, row + rows.width);
    }
  }
  const std::vector<float>& at(Site site, size_t layer = 0) const {
    return values_.at({site, layer});
  }
  bool has(Site site, size_t layer = 0) const { return values_.contains({site, layer}); }

 private:
  std::map<std::pair<Site, size_t>, std::vector<float>> values_;
};

inline constexpr float kMaskedLogit = std::numeric_limits<float>::lowest();

// |got - want| <= 2e-5 times the largest entry, masked ones left out; those equal to the bit.
inline ::testing::AssertionResult close_to_reference(std::span<const float> got,
                                                     std::span<const float> want) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " values, not " << want.size();
  double largest = 0;
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] == kMaskedLogit || got[i] == kMaskedLogit) {
      if (got[i] == want[i]) continue;
      return ::testing::AssertionFailure()
             << "entry " << i << " is " << got[i] << ", not " << want[i];
    }
    largest = std::max(largest, std::fabs(double{want[i]}));
    const double distance = std::fabs(double{got[i]} - double{want[i]});
    if (!std::isfinite(distance))
      return ::testing::AssertionFailure() << "entry " << i << " is " << got[i];
    worst = std::max(worst, distance);
  }
  if (worst <= 2e-5 * largest) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "off by " << worst << ", largest entry " << largest;
}

// [heads, rows, dim] of rows [rows, heads dim].
inline std::vector<float> by_head(const std::vector<float>& rows, size_t heads, size_t dim) {
  std::vector<float> result;
  const size_t count = rows.size() / (heads * dim);
  for (size_t h = 0; h < heads; ++h) {
    for (size_t r = 0; r < count; ++r) {
      const auto from = rows.begin() + static_cast<ptrdiff_t>((r * heads + h) * dim);
      result.insert(result.end(), from, from + static_cast<ptrdiff_t>(dim));
    }
  }
  return result;
}

class ReferenceModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = reference(std::filesystem::path("models") / GetParam());
    if (!std::filesystem::exists(folder_))
      folder_ = data(std::filesystem::path("models") / GetParam());
    PHIDIAS_NEEDS_REFERENCE(folder_);
    auto model = Model::load(folder_);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    model_ = *model;
    cases_ = read_json(folder_ / "cases.json");
  }

  std::unique_ptr<Engine> engine(EngineOptions options = {}) {
    if (options.kv.empty()) options.numerics = Numerics::kExact;
    auto created = Engine::create(model_, options);
    EXPECT_TRUE(created.ok()) << created.error().to_string();
    return std::move(*created);
  }

  // Logits of all positions, fed in chunks of `chunk` (0: at once).
  static std::vector<float> logits(Engine& engine, const std::vector<TokenId>& ids,
                                   size_t chunk = 0, RunTaps* taps = nullptr) {
    std::vector<float> all;
    const SequenceId sequence = engine.open({.prompt_tokens = static_cast<uint32_t>(ids.size())});
    if (taps != nullptr) engine.stepper().attach(sequence, taps);
    for (size_t at = 0; at < ids.size();) {
      const size_t end = chunk == 0 ? ids.size() : std::min(ids.size(), at + chunk);
      std::vector<Row> rows;
      for (; at < end; ++at) rows.push_back({ids[at], sequence, static_cast<uint32_t>(at), true});
      const Status status = engine.step(rows, [&](size_t, std::span<const float> row) {
        all.insert(all.end(), row.begin(), row.end());
      });
      EXPECT_TRUE(status.ok()) << status.error().to_string();
    }
    engine.close(sequence);
    return all;
  }

  // The last case of cases.json.
  std::vector<TokenId> long_prompt() const {
    return cases_["values"].back()["ids"].get<std::vector<TokenId>>();
  }

  using Closeness = std::function<::testing::AssertionResult(std::span<const float> got,
                                                             std::span<const float> want)>;
  // Tokens and step logits of every prompt under every policy that is stored.
  void check_generation(const Closeness& close = close_to_reference) {
    const TensorMap expected = read_tensors(folder_ / "generate.safetensors");
    size_t compared = 0;
    for (const Json& entry : cases_["generate"]) {
      const auto prefix = entry["prefix"].get<std::string>() + ".";
      for (const auto& [name, policy] :
           {std::pair<std::string, RopeSwitch>{"", RopeSwitch::kReprefill},
            {"keep.", RopeSwitch::kKeep},
            {"short.", RopeSwitch::kShort},
            {"long.", RopeSwitch::kLong}}) {
        const auto tokens = expected.integers.find(prefix + name + "tokens");
        if (tokens == expected.integers.end()) continue;
        check_answer(entry["ids"].get<std::vector<TokenId>>(), policy, tokens->second,
                     expected.floats.at(prefix + name + "step_logits"), prefix + name, close);
        ++compared;
      }
    }
    EXPECT_GE(compared, cases_["generate"].size());
  }

  void check_answer(std::vector<TokenId> ids, RopeSwitch policy, const std::vector<int64_t>& tokens,
                    const std::vector<float>& step_logits, const std::string& where,
                    const Closeness& close) {
    const auto engine = this->engine();
    const SequenceId sequence =
        engine->open({.rope_switch = policy, .prompt_tokens = static_cast<uint32_t>(ids.size())});
    std::vector<float> row_logits;
    size_t fed = 0;
    for (size_t step = 0; step < tokens.size(); ++step) {
      std::vector<Row> rows;
      for (; fed < ids.size(); ++fed)
        rows.push_back({ids[fed], sequence, static_cast<uint32_t>(fed), fed + 1 == ids.size()});
      const Status status = engine->step(rows, [&](size_t, std::span<const float> row) {
        row_logits.assign(row.begin(), row.end());
      });
      ASSERT_TRUE(status.ok()) << status.error().to_string();
      const auto best = static_cast<TokenId>(
          std::max_element(row_logits.begin(), row_logits.end()) - row_logits.begin());
      ASSERT_EQ(best, tokens[step]) << where << " step " << step;
      const size_t vocab = row_logits.size();
      if ((step + 1) * vocab <= step_logits.size()) {  // large vocabularies store a few
        EXPECT_TRUE(close(row_logits, std::span(step_logits).subspan(step * vocab, vocab)))
            << where << " step " << step;
      }
      ids.push_back(best);
    }
  }

  // Chunks, threads, small passes, neighbours on both sides of a LongRoPE switch: no bit changes.
  void check_same_bits(const EngineOptions& options) {
    const auto ids = long_prompt();
    EngineOptions single = options;
    single.threads = 1;
    const auto plain = this->engine(single);
    const auto expected = logits(*plain, ids);
    for (const size_t chunk : {1U, 3U, 7U, 16U})
      EXPECT_EQ(logits(*plain, ids, chunk), expected) << "chunks of " << chunk;
    for (const size_t threads : {2U, 3U}) {
      EngineOptions several = options;
      several.threads = threads;
      EXPECT_EQ(logits(*this->engine(several), ids), expected) << threads << " threads";
    }
    EngineOptions small = options;
    small.step_rows = 5;
    EXPECT_EQ(logits(*this->engine(small), ids), expected) << "passes of 5 rows";

    const auto crowded = this->engine(options);
    const SequenceId own = crowded->open({.prompt_tokens = static_cast<uint32_t>(ids.size())});
    const SequenceId short_one = crowded->open({.prompt_tokens = 4});
    const SequenceId long_one = crowded->open({.prompt_tokens = 30});
    std::vector<Row> rows;
    for (uint32_t i = 0; i < std::max<size_t>(30, ids.size()); ++i) {
      if (i < 4) rows.push_back({static_cast<TokenId>(5 + i), short_one, i, i % 2 == 0});
      if (i < ids.size()) rows.push_back({ids[i], own, i, true});
      if (i < 30) rows.push_back({static_cast<TokenId>(40 + i), long_one, i, i == 29});
    }
    std::vector<float> actual(expected.size());
    const Status status = crowded->step(rows, [&](size_t row, std::span<const float> values) {
      if (rows[row].sequence != own) return;
      std::copy(values.begin(), values.end(),
                actual.begin() + static_cast<ptrdiff_t>(rows[row].position * values.size()));
    });
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    EXPECT_EQ(actual, expected) << "beside others";
  }

  std::filesystem::path folder_;
  std::shared_ptr<const Model> model_;
  Json cases_;
};

}  // namespace phidias::test
