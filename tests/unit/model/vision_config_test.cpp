// What a checkpoint's files say about its vision tower.
#include "model/vision/config.h"

#include <gtest/gtest.h>

namespace phidias {
namespace {

// As in the published files.
constexpr const char* kPublished = R"({
  "embd_layer": {"embedding_cls": "image", "hd_transform_order": "sub_glb",
                 "projection_cls": "mlp", "use_hd_transform": true,
                 "with_learnable_separator": true},
  "img_processor": {"image_dim_out": 1024, "name": "clip_vision_model",
                    "model_name": "openai/clip-vit-large-patch14-336", "num_img_tokens": 144}
})";

Result<VisionSpec> read(const Json& config) {
  return vision_spec_from_config(JsonReader(config, "config.json"));
}

TEST(VisionConfig, PublishedFilesMeanClipsLargeTowerBarItsLastLayer) {
  const auto spec = read(*parse_json(kPublished));
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->width, 1024U);
  EXPECT_EQ(spec->layers, 23U);
  EXPECT_EQ(spec->stored_layers, 24U);
  EXPECT_EQ(spec->head_dim(), 64U);
  EXPECT_EQ(spec->ffn_width, 4096U);
  EXPECT_EQ(spec->positions(), 577U);
  EXPECT_EQ(spec->image_rows(1, 1), 313U);
  EXPECT_EQ(spec->image_rows(4, 4), 2509U);
}

TEST(VisionConfig, WhatCannotBeRunIsAnErrorAtItsKey) {
  struct Change {
    const char* where;
    const char* key;
    Json value;
    Code code;
  };
  for (const Change& change : {
           Change{"embd_layer", "hd_transform_order", "glb_sub", Code::kUnsupported},
           Change{"embd_layer", "projection_cls", "linear", Code::kUnsupported},
           Change{"embd_layer", "use_hd_transform", false, Code::kUnsupported},
           Change{"img_processor", "name", "siglip", Code::kUnsupported},
           Change{"img_processor", "layer_idx", -26, Code::kCorrupt},
           Change{"img_processor", "layer_idx", 1.5, Code::kCorrupt},
           Change{"img_processor", "num_img_tokens", 145, Code::kCorrupt},
           Change{"vision_config", "hidden_size", 512, Code::kCorrupt},
           Change{"vision_config", "image_size", 1U << 23, Code::kUnsupported},
           Change{"vision_config", "image_size", 350U, Code::kUnsupported},
           Change{"vision_config", "num_attention_heads", 3U, Code::kUnsupported},
           Change{"vision_config", "hidden_act", "gelu", Code::kUnsupported},
       }) {
    Json config = *parse_json(kPublished);
    config[change.where][change.key] = change.value;
    const auto spec = read(config);
    ASSERT_FALSE(spec.ok()) << change.key;
    EXPECT_EQ(spec.error().code, change.code) << spec.error().to_string();
    EXPECT_EQ(spec.error().place.file, "config.json");
  }
}

TEST(VisionConfig, ImageProcessingIsReadAndChecked) {
  VisionSpec spec = *read(*parse_json(kPublished));
  const Json good =
      *parse_json(R"({"num_crops": 16, "image_mean": [0.5, 0.25, 0], "image_std": [1, 2, 3]})");
  ASSERT_TRUE(read_image_processing(JsonReader(good, "p.json"), spec).ok());
  EXPECT_EQ(spec.crops, 16U);
  EXPECT_EQ(spec.statistics.mean[1], 0.25F);
  EXPECT_EQ(spec.statistics.deviation[2], 3.0F);
  for (const char* bad :
       {R"({"num_crops": 0})", R"({"num_crops": 257})", R"({"image_std": [1, 1]})",
        R"({"image_std": [1, 0, 1]})", R"({"image_mean": "grey"})"}) {
    const Json json = *parse_json(bad);
    EXPECT_FALSE(read_image_processing(JsonReader(json, "p.json"), spec).ok()) << bad;
  }
}

}  // namespace
}  // namespace phidias
