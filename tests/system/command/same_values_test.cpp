// T24: one list of edits gives the same bits through the library and through the command, as JSON,
// as lines and within a document of runs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "phidias/engine.h"
#include "phidias/runs.h"
#include "phidias/trace.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

class SameValues : public testing::Test {
 protected:
  using Tensors = std::vector<std::pair<std::string, Tensor>>;

  std::string write(const char* name, const std::string& text) const {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return "'" + path.string() + "'";
  }
  Tensors by_command(const std::string& arguments) const {
    const auto out = folder_.path() / "out.safetensors";
    const std::string line = "'" PHIDIAS_PROGRAM "' trace -m '" + model_.string() + "' -o '" +
                             out.string() + "' " + arguments;
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    auto tensors = load_tensors(out);
    EXPECT_TRUE(tensors.ok()) << tensors.error().to_string();
    return tensors.ok() ? std::move(*tensors) : Tensors();
  }
  static const Tensor& named(const Tensors& tensors, const std::string& name) {
    static const Tensor kNone;
    for (const auto& [own, tensor] : tensors) {
      if (own == name) return tensor;
    }
    ADD_FAILURE() << name;
    return kNone;
  }

  const std::filesystem::path model_ = test::data("models/mini-4k");
  const test::TemporaryFolder folder_;
};

TEST_F(SameValues, ThroughTheLibraryTheCommandAndADocumentOfRuns) {
  Edits edits;
  edits += kValues.layers[1].layer_output.at(kLast) += 0.37F;
  edits += kValues.layers[0].self_attn.attention_head_outputs.head(2) *= -0.5;
  edits += kValues.layers[2].mlp.mlp_neurons.neuron(3).clamp(0, 0.05);
  edits += kValues.layers[1].self_attn.attention_scores.key(1) = kHidden;
  const std::string lines =
      "--edit 'layers[1].layer_output += 0.37 @ last' "
      "--edit 'layers[0].attention_head_outputs[head=2] *= -0.5' "
      "--edit 'layers[2].mlp_neurons[neuron=3] clamp 0 0.05' "
      "--edit 'layers[1].attention_scores[key=1] = hidden' ";
  const auto json = to_json(edits);
  ASSERT_TRUE(json.ok());
  for (const char* numerics : {"exact", "fast"}) {
    auto model = Model::load(model_);
    ASSERT_TRUE(model.ok());
    auto engine = Engine::create(*model, {.numerics = *numerics_from_name(numerics)});
    ASSERT_TRUE(engine.ok());
    Trace trace(**engine, {5, 6, 7, 8, 9});
    const auto reads = parse_read("all", **model);
    for (const Read& read : *reads) trace.read(read);
    trace.edit(edits);
    const auto traced = trace.run();
    ASSERT_TRUE(traced.ok()) << traced.error().to_string();

    const std::string mode = std::string("--numerics ") + numerics + " ";
    const std::string text = mode + "--ids 5,6,7,8,9 --read all ";
    const Tensors by_json = by_command(text + "--edit " + write("edits.json", *json));
    const Tensors by_lines = by_command(text + lines);
    const Tensors by_runs = by_command(
        mode + "--runs " +
        write("runs.json", R"({"runs": [{"name": "one", "ids": [5, 6, 7, 8, 9], "read": ["all"],
                               "edits": )" +
                               *json + "}]}"));
    for (const Traced::Entry& entry : traced->entries) {
      if (entry.tensor.type != TensorType::kF32) continue;  // load_tensors() leaves integers out
      EXPECT_EQ(named(by_json, entry.name).floats, entry.tensor.floats) << entry.name;
      EXPECT_EQ(named(by_lines, entry.name).floats, entry.tensor.floats) << entry.name;
      EXPECT_EQ(named(by_runs, "one." + entry.name).floats, entry.tensor.floats) << entry.name;
    }
  }
}

// T21 as one document.
TEST_F(SameValues, ADocumentPatchesOneRunFromAnother) {
  const Tensors tensors = by_command("--numerics exact --runs " + write("patch.json", R"({"runs": [
        {"name": "clean", "ids": [5, 6, 7, 8], "read": ["logits"]},
        {"name": "corrupt", "ids": [5, 9, 7, 8], "read": ["logits"]},
        {"name": "patched", "ids": [5, 9, 7, 8], "read": ["logits"], "generate": 3, "edits": [
          {"value": "layers[1].layer_output", "op": "patch", "at": "prompt",
           "from": {"run": "clean", "value": "layers[1].layer_output"}}]}]})"));
  const std::vector<float>& patched = named(tensors, "patched.logits").floats;
  const std::vector<float>& clean = named(tensors, "clean.logits").floats;
  EXPECT_TRUE(std::equal(clean.begin(), clean.end(), patched.begin()));
  EXPECT_NE(clean, named(tensors, "corrupt.logits").floats);
  EXPECT_EQ(named(tensors, "patched.logits").shape[1], 6U);  // 4 and two of the 3 chosen
}

}  // namespace
}  // namespace phidias
