// The same model as a GGUF file, with stacked experts as converters write them.
#include <cstring>

#include "formats/gguf_writer.h"
#include "support/reference_model.h"
#include "support/temporary_folder.h"

namespace phidias::test {
namespace {

struct Part {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

// Published name to GGUF name, of what is stored one to one.
std::string gguf_name(const std::string& name) {
  static const std::pair<const char*, const char*> kNames[] = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.", "blk."},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"block_sparse_moe.gate", "ffn_gate_inp"}};
  std::string result = name;
  for (const auto& [from, to] : kNames) {
    const size_t at = result.find(from);
    if (at != std::string::npos) result.replace(at, std::strlen(from), to);
  }
  return result;
}

std::vector<Part> parts_of(const std::filesystem::path& folder, const Json& config) {
  const TensorMap tensors = read_tensors(folder / "model.safetensors");
  std::vector<Part> parts;
  for (const auto& [name, values] : tensors.floats) {
    if (name.find(".experts.") == std::string::npos)
      parts.push_back({gguf_name(name), tensors.shapes.at(name), values});
  }
  for (size_t layer = 0; layer < config["num_hidden_layers"].get<size_t>(); ++layer) {
    for (const auto& [ours, theirs] :
         {std::pair("ffn_gate_exps", "w1"), std::pair("ffn_up_exps", "w3"),
          std::pair("ffn_down_exps", "w2")}) {
      Part part{"blk." + std::to_string(layer) + "." + ours + ".weight", {}, {}};
      const auto count = config["num_local_experts"].get<uint64_t>();
      for (uint64_t e = 0; e < count; ++e) {
        const std::string name = "model.layers." + std::to_string(layer) +
                                 ".block_sparse_moe.experts." + std::to_string(e) + "." + theirs +
                                 ".weight";
        const std::vector<float>& values = tensors.floats.at(name);
        part.values.insert(part.values.end(), values.begin(), values.end());
        part.shape = tensors.shapes.at(name);
      }
      part.shape.insert(part.shape.begin(), count);
      parts.push_back(std::move(part));
    }
  }
  for (const char* kind : {"short", "long"}) {
    const auto values =
        config["rope_scaling"][std::string(kind) + "_factor"].get<std::vector<float>>();
    parts.push_back({std::string("rope_factors_") + kind + ".weight", {values.size()}, values});
  }
  return parts;
}

struct Magnitude {
  double factor;
  uint32_t original;
  uint32_t context;
};

void write_gguf(const std::filesystem::path& path, const Json& config, std::vector<Part> parts,
                const Magnitude& magnitude) {
  GgufHeader header;
  header.add("general.architecture", "phimoe");
  const auto number = [&](const char* key, const char* of) {
    header.add(std::string("phimoe.") + key, config[of].get<uint32_t>());
  };
  number("embedding_length", "hidden_size");
  number("feed_forward_length", "intermediate_size");
  number("block_count", "num_hidden_layers");
  number("attention.head_count", "num_attention_heads");
  number("attention.head_count_kv", "num_key_value_heads");
  number("expert_count", "num_local_experts");
  number("expert_used_count", "num_experts_per_tok");
  header.add("phimoe.context_length", magnitude.context);
  header.add("phimoe.attention.layer_norm_rms_epsilon", 1e-5F);
  header.add("phimoe.rope.dimension_count", 16U);
  header.add("phimoe.rope.freq_base", 10000.0F);
  header.add("phimoe.rope.scaling.original_context_length", magnitude.original);
  header.add("phimoe.rope.scaling.attn_factor", static_cast<float>(magnitude.factor));
  for (const Part& part : parts) header.add_tensor(part.name, Format::kF32, part.shape);
  auto writer = GgufWriter::create(path, header);
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  for (const Part& part : parts)
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(part.values))).ok());
  ASSERT_TRUE(writer->commit().ok());
}

class MoeGguf : public ReferenceModel {
 protected:
  void SetUp() override {
    ReferenceModel::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    config_ = read_json(folder_ / "config.json");
  }
  Json config_;
  TemporaryFolder temporary_;
};
INSTANTIATE_TEST_SUITE_P(Folders, MoeGguf, ::testing::Values("phimoe"), folder_name);

TEST_P(MoeGguf, StackedExpertsGiveTheFoldersBits) {
  const auto path = temporary_.path() / "model.gguf";
  write_gguf(path, config_, parts_of(folder_, config_), {1.243163121016122, 16, 128});
  const auto expected = logits(*engine(), long_prompt());
  auto loaded = Model::load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  model_ = *loaded;
  // The key is a float: the magnitude is rounded to one.
  EXPECT_TRUE(close_to_reference(logits(*engine(), long_prompt()), expected));
  EXPECT_TRUE(model_->info().notices.empty());
}

TEST_P(MoeGguf, TheConvertersMagnitudeIsReplacedForThePublishedContextsAlone) {
  const auto path = temporary_.path() / "model.gguf";
  const auto magnitude_of = [&](const Magnitude& magnitude) {
    write_gguf(path, config_, parts_of(folder_, config_), magnitude);
    auto loaded = Model::load(path);
    EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
    return (*loaded)->info().rope_magnitude;
  };
  EXPECT_DOUBLE_EQ(magnitude_of({1.1902380714238083, 4096, 131072}), 1.243163121016122);
  EXPECT_NEAR(magnitude_of({1.05, 4096, 131072}), 1.05, 1e-6);
  EXPECT_NEAR(magnitude_of({1.1902380714238083, 4096, 65536}), 1.1902380714238083, 1e-6);
}

TEST_P(MoeGguf, AStackOfAnotherNumberOfExpertsIsRefusedByName) {
  const auto path = temporary_.path() / "model.gguf";
  std::vector<Part> parts = parts_of(folder_, config_);
  for (Part& part : parts) {
    if (part.name != "blk.1.ffn_up_exps.weight") continue;
    part.shape[0] /= 2;
    part.values.resize(part.values.size() / 2);
  }
  write_gguf(path, config_, std::move(parts), {1.243163121016122, 16, 128});
  auto loaded = Model::load(path);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("blk.1.ffn_up_exps.weight is [2, 96, 64]"),
            std::string::npos)
      << loaded.error().message;
}

}  // namespace
}  // namespace phidias::test
