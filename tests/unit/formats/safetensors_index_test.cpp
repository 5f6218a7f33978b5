#include "formats/safetensors_index.h"

#include <gtest/gtest.h>

#include "unit/formats/file_bytes.h"

namespace phidias {
namespace {

TEST(SafetensorsIndex, NamesAShardForEveryTensor) {
  const auto index = SafetensorsIndex::parse(
      R"({"metadata":{"total_size":7642159104},"weight_map":{"lm_head.weight":"b","a":"a","c":"b"}})",
      "i");
  ASSERT_TRUE(index.ok()) << index.error().to_string();
  EXPECT_EQ(index->weight_map.at("lm_head.weight"), "b");
  EXPECT_EQ(index->weight_map.size(), 3U);
  EXPECT_EQ(index->shards, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(index->total_size, 7642159104U);
}

TEST(SafetensorsIndex, TheSizeMayBeAbsentOrAFloat) {
  EXPECT_EQ(SafetensorsIndex::parse(R"({"weight_map":{}})", "i")->total_size, std::nullopt);
  EXPECT_EQ(SafetensorsIndex::parse(R"({"metadata":{"total_size":1.5e3},"weight_map":{}})", "i")
                ->total_size,
            1500U);
}

void refused(std::string_view text, std::string_view item, std::string_view part) {
  const auto index = SafetensorsIndex::parse(text, "the.index.json");
  ASSERT_FALSE(index.ok()) << text;
  EXPECT_EQ(index.error().code, Code::kCorrupt);
  EXPECT_EQ(index.error().place.file, "the.index.json");
  EXPECT_EQ(index.error().place.item, item);
  EXPECT_NE(index.error().message.find(part), std::string::npos) << index.error().message;
}

TEST(SafetensorsIndex, ShardsStayInTheirFolder) {
  for (const std::string name :
       {"../x", "/etc/passwd", "a/b", "..", ".", "", "a\\\\b", "x\\u0000"}) {
    refused(R"({"weight_map":{"t":")" + name + "\"}}", "/weight_map/t", "plain file name");
  }
}

TEST(SafetensorsIndex, WhatIsNoIndexIsRefused) {
  refused("", "", "no JSON object");
  refused("[]", "", "no JSON object");
  refused("{\"weight_map\":{\"a\":", "", "no JSON object");
  refused("{}", "/weight_map", "must be an object");
  refused(R"({"weight_map":[]})", "/weight_map", "must be an object");
  refused(R"({"weight_map":{"t":1}})", "/weight_map/t", "name of a shard");
  refused(R"({"weight_map":{"t":"a","t":"b"}})", "/weight_map/t", "twice");
  for (const std::string size : {"\"7\"", "-1", "1e300", "0.5", "null"}) {
    refused(R"({"weight_map":{},"metadata":{"total_size":)" + size + "}}", "/metadata/total_size",
            "number of bytes");
  }
}

}  // namespace
}  // namespace phidias
