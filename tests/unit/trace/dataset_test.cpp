// Activation datasets: what is in the shards, and that an interrupted collection becomes the whole
// one.
#include "phidias/dataset.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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
  EXPECT_EQ(collection->shards, 3U);
  const auto second = test::read_tensors(folder.path() / "d" / "shard-00001.safetensors");
  EXPECT_EQ(second.integers.at("sequence_offsets"), (std::vector<int64_t>{0, 6, 8, 20}));
  EXPECT_EQ(second.integers.at("sequence").front(), 2);
  EXPECT_EQ(second.integers.at("token_ids")[1], 10);
  EXPECT_EQ(second.integers.at("positions")[7], 1);
  EXPECT_EQ(second.shapes.at("layers.0.self_attn.attention_premix"),
            (std::vector<uint64_t>{20, 4, 16}));
  const auto stream = read(kValues.layers[2].layer_output);
  const auto& stored = second.floats.at("layers.2.layer_output");
  EXPECT_TRUE(std::equal(stream.begin(), stream.end(), stored.begin() + 8 * 64));
  const auto index = test::read_json(folder.path() / "d" / "index.json");
  EXPECT_EQ(index["shards"].size(), 3U);
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
