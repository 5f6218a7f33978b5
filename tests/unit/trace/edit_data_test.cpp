// Edits as data: builders, JSON, lines.
#include <gtest/gtest.h>

#include "phidias/edits.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

Tensor numbers(std::vector<uint64_t> shape, std::vector<float> values) {
  return Tensor::of(std::move(shape), std::move(values));
}

Edits one_of_each() {
  const std::vector<float> v{0.1F, -2.5F, 1e-20F, 3};
  const Tensor matrix = numbers({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8.5F});
  const auto stream = kValues.layers[1].layer_output;
  const auto scores = kValues.layers[0].self_attn.attention_scores;
  Edits edits;
  edits += stream = 0.25F;
  edits += stream.at(kDecode) += 4.0 * Operand(v);
  edits += stream.at(Positions::range(-3)) *= 0.5;
  edits += kValues.layers.all().mlp.mlp_neurons.neurons({3, 4}).clamp(-1, 2.5);
  edits += (kValues.layers[2].self_attn.attention_keys.head(1).at({2, 5}) *= -1.0).call(7);
  edits += scores.key(0) = kHidden;
  edits += only(scores.key({1, 2}).query(kLast));
  edits += uniform(kValues.layers[0].self_attn.attention_probabilities.head(3)).renormalized();
  edits += (scores = 1.0F).lifted();
  edits += zero(kValues.layers[-1].self_attn.attention_head_outputs.head(-1));
  edits += project_out(stream, matrix);
  edits += keep_only(stream, matrix);
  edits += swap_subspace(stream, matrix, Tensor::of({4}, v));
  edits += noise(kValues.token_embeddings.at({0, 1}), 0.5, 1234567890123456789U);
  edits += low_rank(stream, matrix, numbers({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  const auto autoencoder = std::make_shared<const Autoencoder>(
      Autoencoder{matrix, numbers({2}, {0.5F, -1}), matrix, Tensor::of({4}, v), true});
  edits += edit_sae(stream, autoencoder,
                    {{0, FeatureEdit::Kind::kSet, 5}, {1, FeatureEdit::Kind::kScale, 0.5}});
  edits += edit_sae(stream, autoencoder, {{1, FeatureEdit::Kind::kAdd, -2}}, false);
  edits += steer(5, Tensor::of({4}, v), 2, Positions::where_token(9), true);
  edits += (stream += 1.0).when(Tensor::of({4}, v), 0.75);
  edits += skip_layers(1, -2);
  edits += patch(stream, {"clean", kValues.layers[0].layer_output}, {{3, 4}, {5, -1}});
  edits += stream.at(kLast) += 2.0 * Operand(RunValue{"clean", stream.at(3)});
  return edits;
}

TEST(EditData, JsonKeepsEveryOperationAndQualifier) {
  const Edits edits = one_of_each();
  const auto json = to_json(edits);
  ASSERT_TRUE(json.ok()) << json.error().to_string();
  const auto again = edits_from_json(*json);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  ASSERT_EQ(again->size(), edits.size());
  for (size_t i = 0; i < edits.size(); ++i) EXPECT_EQ((*again)[i], edits[i]) << i << *json;
}

TEST(EditData, FunctionsAreNoData) {
  EXPECT_FALSE(to_json({on_live(kValues.logits, [](const View&, const Where&) {})}).ok());
}

TEST(EditData, JsonThatMeansNothingIsRefusedWithItsPlace) {
  const auto place = [](std::string_view json) {
    const auto edits = edits_from_json(json);
    EXPECT_FALSE(edits.ok()) << json;
    return edits.ok() ? std::string() : edits.error().place.item;
  };
  const std::string value = R"("value": "layers[0].layer_output")";
  EXPECT_EQ(place("{}"), "/");
  EXPECT_EQ(place("[{}]"), "/0/op");
  EXPECT_EQ(place(R"([{"op": "zero"}])"), "/0/value");
  EXPECT_EQ(place("[{" + value + R"(, "op": "explode"}])"), "/0/op");
  EXPECT_EQ(place("[{" + value + R"(, "op": "zero", "att": "last"}])"), "/0/att");
  EXPECT_EQ(place("[{" + value + R"(, "op": "zero", "at": "soon"}])"), "/0/at");
  EXPECT_EQ(place("[{" + value + R"(, "op": "add", "tensor": [[1, 2], [3]]}])"), "/0/tensor");
  EXPECT_EQ(place("[{" + value + R"(, "op": "add", "tensor": ["x"]}])"), "/0/tensor");
  EXPECT_EQ(place("[{" + value + R"(, "op": "set", "tensor": {"file": "x", "name": "y"}}])"),
            "/0/tensor");
  EXPECT_EQ(place("[{" + value + R"(, "op": "scale"}])"), "/0/by");
  EXPECT_EQ(place("[{" + value + R"(, "op": "zero", "heads": [1.5]}])"), "/0/heads");
  EXPECT_EQ(place(R"([{"op": "skip"}])"), "/0/layers");
  // Numbers that wrap around to something else are none.
  EXPECT_EQ(place(R"([{"op": "skip", "layers": [4294967296, 4294967297]}])"), "/0/layers");
  EXPECT_EQ(place("[{" + value + R"(, "op": "zero", "channels": [4294967297]}])"), "/0/channels");
  EXPECT_EQ(place("[{" + value + R"(, "op": "zero", "at": {"token": 4294967301}}])"), "/0/at");
  EXPECT_EQ(place("[{" + value + R"(, "op": "zero", "at": [9223372036854775808]}])"), "/0/at");
  EXPECT_EQ(place("[{" + value + R"(, "op": "steer", "v": [1], "tensor": [2]}])"), "/0/v");
  EXPECT_FALSE(edits_from_json("[{" + value + R"(, "op": "add", "tensor": 1e999}])").ok());
  EXPECT_FALSE(edits_from_json("[{" + value + R"(, "op": "add", "tensor": NaN}])").ok());
  const std::string deep = std::string(100, '[') + "1" + std::string(100, ']');
  EXPECT_TRUE(edits_from_json("[{" + value + R"(, "op": "add", "tensor": )" + deep + "}]").ok());
  const std::string deeper = std::string(100000, '[') + "1" + std::string(100000, ']');
  EXPECT_FALSE(edits_from_json("[{" + value + R"(, "op": "add", "tensor": )" + deeper + "}]").ok());
}

TEST(EditData, TensorsAreReadFromFilesWhereThatIsAllowed) {
  const test::TemporaryFolder folder;
  const std::vector<float> v{1, 2, 3};
  const auto path = folder.path() / "v.safetensors";
  ASSERT_TRUE(
      save_tensors(path, std::vector<NamedTensor>{{"v", TensorType::kF32, {3}, v.data()}}).ok());
  const std::string json = R"([{"value": "layers[0].layer_output", "op": "add", "coef": 4,
      "tensor": {"file": "v.safetensors", "name": "v"}}])";
  // Files lie beside the document that names them.
  const auto edits =
      edits_from_json(json, TensorFiles::kAllowed, (folder.path() / "e.json").string());
  ASSERT_TRUE(edits.ok()) << edits.error().to_string();
  EXPECT_EQ((*edits)[0], (kValues.layers[0].layer_output += 4.0 * Operand(v)));
  const auto line = edits_from_line("layers[0].layer_output += 4 * " + path.string() + ":v @ last",
                                    TensorFiles::kAllowed);
  ASSERT_TRUE(line.ok()) << line.error().to_string();
  EXPECT_EQ((*line)[0], (kValues.layers[0].layer_output.at(kLast) += 4.0 * Operand(v)));
}

TEST(EditData, LinesSayWhatBuildersSay) {
  const auto line = [](std::string_view text) {
    const auto edits = edits_from_line(text);
    EXPECT_TRUE(edits.ok()) << (edits.ok() ? "" : edits.error().to_string());
    return edits.ok() && edits->size() == 1 ? (*edits)[0] : Edit();
  };
  const auto heads = kValues.layers[3].self_attn.attention_head_outputs.head(7);
  EXPECT_EQ(line("layers[3].attention_head_outputs[head=7] *= 0.5 @ decode"),
            (heads.at(kDecode) *= 0.5));
  EXPECT_EQ(line("layers[0].attention_scores[key=0] = hidden"),
            (kValues.layers[0].self_attn.attention_scores.key(0) = kHidden));
  EXPECT_EQ(line("layers[2].mlp_neurons[neuron=4] clamp 0 0.05"),
            kValues.layers[2].mlp.mlp_neurons.neuron(4).clamp(0, 0.05));
  EXPECT_EQ(line("skip 3 5"), skip_layers(3, 5));
  for (const char* wrong :
       {"", "layers[0].layer_output", "layers[0].layer_output + 3", "layers[0].layer_output = x y",
        "layers[0].layer_output += v.gguf", "skip", "layers[0].nothing = 3", "skip 1 2 3",
        "skip 1 x", "layers[0].mlp_neurons clamp 0", "layers[0].mlp_neurons clamp 0 1 2",
        "layers[0].layer_output = nan", "layers[0].layer_output += inf * 2",
        "layers[0].layer_output += 2 * 3 * 4"}) {
    EXPECT_FALSE(edits_from_line(wrong).ok()) << wrong;
  }
}

TEST(EditData, PatchTakesEachPositionToItsPlace) {
  const Tensor source = numbers({1, 2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const std::vector<std::pair<int64_t, int64_t>> map{{2, 0}, {0, 5}};
  const Edits edits = patch(kValues.layers[0].self_attn.attention_queries, source, map);
  ASSERT_EQ(edits.size(), 2U);
  EXPECT_EQ(edits[0].value.selection.at, Positions(0));
  EXPECT_EQ(edits[0].tensor->shape, (std::vector<uint64_t>{1, 2, 1, 2}));
  EXPECT_EQ(edits[0].tensor->floats, (std::vector<float>{4, 5, 10, 11}));
  EXPECT_EQ(edits[1].tensor->floats, (std::vector<float>{0, 1, 6, 7}));
}

TEST(View, NamesItsAxesAndWritesThroughStrides) {
  std::vector<float> memory(24);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const View view{memory.data(), Layout::kPattern, {2, 3, 4}, {4, 8, 1}};
  EXPECT_EQ(view({1, 2, 3}), 23.0F);
  view.head(1).key(0).fill(-1);
  EXPECT_EQ(memory[4], -1);
  EXPECT_EQ(memory[20], -1);
  EXPECT_EQ(memory[5], 5);
  EXPECT_EQ(view.row(0).head(0).copy(), (std::vector<float>{0, 1, 2, 3}));
  view.normalize();
  EXPECT_FLOAT_EQ(memory[1] + memory[2] + memory[3], 1);
}

}  // namespace
}  // namespace phidias
