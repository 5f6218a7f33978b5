// Activation datasets: what is in the shards, and that an interrupted collection becomes the whole
// one.
#include "phidias/dataset.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "small_model.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

namespace phidias {
namespace {

class Dataset : public test::SmallModel {
 protected:
  CollectOptions options() const {
    CollectOptions wanted;
    for (const char* path : {"layers[1:3].layer_output", "layers[0].attention_premix"}) {
      auto reads = parse_read(path, engine_->model());
      wanted.reads.push_back(reads->front());
    }
    wanted.dtype = "f32";
    wanted.shard_tokens = 20;
    return wanted;
  }
  std::vector<std::vector<TokenId>> texts() const {
    return {ids_, {5, 6, 7}, {9, 10, 11, 12, 13, 14}, {20, 21}, ids_, {30}};
  }
  static std::map<std::string, std::string> files(const std::filesystem::path& folder) {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      contents[entry.path().filename().string()] = test::read_file(entry.path());
    return contents;
  }
};

TEST_F(Dataset, ShardsHoldEveryTextsValuesInOrder) {
  const test::TemporaryFolder folder;
  const auto collection = collect(*engine_, texts(), folder.path() / "d", options());
  ASSERT_TRUE(collection.ok()) << collection.error().to_string();
  EXPECT_EQ(collection->tokens, 36U);
  EXPECT_EQ(collection->shards, 2U);
  // The third text begins in one shard and goes on in the next.
  const auto second = test::read_tensors(folder.path() / "d" / "shard-00001.safetensors");
  EXPECT_EQ(second.integers.at("sequence_offsets"), (std::vector<int64_t>{0, 1, 3, 15, 16}));
  EXPECT_EQ(second.integers.at("sequence").front(), 2);
  EXPECT_EQ(second.integers.at("token_ids")[0], 14);
  EXPECT_EQ(second.integers.at("positions")[0], 5);
  EXPECT_EQ(second.shapes.at("layers.0.self_attn.attention_premix"),
            (std::vector<uint64_t>{16, 4, 16}));
  const auto stream = read(kValues.layers[2].layer_output);
  const auto& stored = second.floats.at("layers.2.layer_output");
  EXPECT_TRUE(std::equal(stream.begin(), stream.end(), stored.begin() + 3 * 64));
  const auto index = test::read_json(folder.path() / "d" / "index.json");
  EXPECT_EQ(index["shards"].size(), 2U);
  EXPECT_EQ(index["complete"], true);
}

TEST_F(Dataset, ACollectionThatWasKilledGoesOnToTheSameBytes) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(collect(*engine_, texts(), folder.path() / "whole", options()).ok());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Threads of the parent's engine do not come along, so the child has one of its own.
    const auto engine = start(load(), {.threads = 1, .numerics = Numerics::kExact});
    CollectOptions killed = options();
    killed.progress = [](uint64_t done, uint64_t) {
      if (done > 16) ::kill(::getpid(), SIGKILL);
      return true;
    };
    (void)collect(*engine, texts(), folder.path() / "killed", killed);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_LT(files(folder.path() / "killed").size(), files(folder.path() / "whole").size());
  CollectOptions resumed = options();
  EXPECT_FALSE(collect(*engine_, texts(), folder.path() / "killed", resumed).ok());
  resumed.resume = true;
  const auto collection = collect(*engine_, texts(), folder.path() / "killed", resumed);
  ASSERT_TRUE(collection.ok()) << collection.error().to_string();
  EXPECT_GT(collection->reused, 0U);
  EXPECT_EQ(files(folder.path() / "killed"), files(folder.path() / "whole"));
}

TEST_F(Dataset, ValuesThatAreLaidOutByHeadComeTokenByToken) {
  const test::TemporaryFolder folder;
  CollectOptions wanted = options();
  wanted.reads = *parse_read("layers[1].attention_queries", engine_->model());
  ASSERT_TRUE(collect(*engine_, {{5, 6}, ids_}, folder.path() / "d", wanted).ok());
  const auto shard = test::read_tensors(folder.path() / "d" / "shard-00000.safetensors");
  const std::string name = "layers.1.self_attn.attention_queries";
  EXPECT_EQ(shard.shapes.at(name), (std::vector<uint64_t>{14, 4, 16}));
  const auto queries = read(kValues.layers[1].self_attn.attention_queries);  // [4, 12, 16]
  for (size_t h = 0; h < 4; ++h) {
    for (size_t i = 0; i < 12 * 16; ++i) {
      EXPECT_EQ(shard.floats.at(name)[(2 + i / 16) * 64 + h * 16 + i % 16],
                queries[h * 12 * 16 + i]);
    }
  }
}

TEST_F(Dataset, TheLossIsThatOfEachTokenGivenThoseBeforeIt) {
  const test::TemporaryFolder folder;
  CollectOptions wanted = options();
  wanted.loss = true;
  ASSERT_TRUE(collect(*engine_, {{5, 6}, ids_}, folder.path() / "d", wanted).ok());
  const auto shard = test::read_tensors(folder.path() / "d" / "shard-00000.safetensors");
  const auto& loss = shard.floats.at("loss");
  ASSERT_EQ(loss.size(), 14U);
  EXPECT_TRUE(std::isnan(loss[0]));
  EXPECT_TRUE(std::isnan(loss[2]));
  const auto all = logits();
  for (size_t i = 1; i < ids_.size(); ++i) {
    const auto row = std::span(all).subspan((i - 1) * engine_->vocab(), engine_->vocab());
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(loss[2 + i], std::log(sum) - static_cast<double>(row[static_cast<size_t>(ids_[i])]),
                1e-5);
  }
}

TEST_F(Dataset, BytesWithAScaleLieWithinHalfAStep) {
  const test::TemporaryFolder folder;
  CollectOptions wanted = options();
  wanted.dtype = "i8";
  ASSERT_TRUE(collect(*engine_, {ids_}, folder.path() / "d", wanted).ok());
  const auto tensors = test::read_tensors(folder.path() / "d" / "shard-00000.safetensors");
  const auto& scales = tensors.floats.at("layers.1.layer_output.scale");
  ASSERT_EQ(scales.size(), ids_.size());
  const auto stream = read(kValues.layers[1].layer_output);
  for (size_t i = 0; i < ids_.size(); ++i) {
    float largest = 0;
    for (size_t c = 0; c < 64; ++c) largest = std::max(largest, std::abs(stream[i * 64 + c]));
    EXPECT_EQ(scales[i], largest / 127.0F);
    for (size_t c = 0; c < 64; ++c) {
      const auto stored =
          static_cast<float>(tensors.integers.at("layers.1.layer_output")[i * 64 + c]);
      EXPECT_NEAR(stored * scales[i], stream[i * 64 + c], 0.5001 * scales[i]);
    }
  }
}

TEST_F(Dataset, AShuffleKeepsEveryTokenWithItsValuesInAnOrderOfTheSeed) {
  const test::TemporaryFolder folder;
  CollectOptions wanted = options();
  ASSERT_TRUE(collect(*engine_, texts(), folder.path() / "plain", wanted).ok());
  wanted.shuffle_tokens = 100;
  wanted.shard_tokens = 10;
  for (const uint64_t seed : {1U, 2U}) {
    wanted.shuffle_seed = seed;
    const auto made = collect(*engine_, texts(), folder.path() / std::to_string(seed), wanted);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(made->shards, 4U);
  }
  EXPECT_NE(files(folder.path() / "1"), files(folder.path() / "2"));

  using Place = std::pair<int64_t, int64_t>;
  const auto rows_of = [&](const std::string& name) {
    std::map<Place, std::vector<float>> rows;
    for (const auto& [file, bytes] : files(folder.path() / name)) {
      if (!file.starts_with("shard")) continue;
      const auto shard = test::read_tensors(folder.path() / name / file);
      const auto& stream = shard.floats.at("layers.2.layer_output");
      for (size_t i = 0; i < shard.integers.at("sequence").size(); ++i) {
        const Place place{shard.integers.at("sequence")[i], shard.integers.at("positions")[i]};
        const auto from = stream.begin() + static_cast<ptrdiff_t>(i * 64);
        EXPECT_TRUE(rows.emplace(place, std::vector<float>(from, from + 64)).second);
      }
    }
    return rows;
  };
  EXPECT_EQ(rows_of("1").size(), 36U);
  EXPECT_EQ(rows_of("1"), rows_of("plain"));
  const auto first = test::read_tensors(folder.path() / "1" / "shard-00000.safetensors");
  EXPECT_FALSE(first.integers.contains("sequence_offsets"));
  const auto& owners = first.integers.at("sequence");
  EXPECT_FALSE(std::is_sorted(owners.begin(), owners.end()));

  // What is missing is made again, to the same bytes.
  const auto whole = files(folder.path() / "1");
  auto index = test::read_json(folder.path() / "1" / "index.json");
  index["shards"].erase(2);
  index["shards"].erase(2);
  std::ofstream(folder.path() / "1" / "index.json") << index.dump();
  std::filesystem::remove(folder.path() / "1" / "shard-00003.safetensors");
  wanted.shuffle_seed = 1;
  wanted.resume = true;
  const auto resumed = collect(*engine_, texts(), folder.path() / "1", wanted);
  ASSERT_TRUE(resumed.ok()) << resumed.error().to_string();
  EXPECT_EQ(resumed->reused, 2U);
  EXPECT_EQ(files(folder.path() / "1"), whole);
}

TEST_F(Dataset, AFolderOfSomethingElseIsNotMixedInto) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(collect(*engine_, texts(), folder.path() / "d", options()).ok());
  CollectOptions other = options();
  other.resume = true;
  other.dtype = "bf16";
  const auto mixed = collect(*engine_, texts(), folder.path() / "d", other);
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().place.item, "/dtype");
}

TEST_F(Dataset, WhatHasNoRowsByPositionIsRefused) {
  const test::TemporaryFolder folder;
  for (const char* path : {"layers[0].attention_probabilities", "next_token_probs", "input_ids",
                           "layers[0].layer_output[at=last]"}) {
    CollectOptions wanted = options();
    wanted.reads = *parse_read(path, engine_->model());
    EXPECT_FALSE(collect(*engine_, texts(), folder.path() / "d", wanted).ok()) << path;
  }
}

}  // namespace
}  // namespace phidias
