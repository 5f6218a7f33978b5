// Documents of runs that take each other's values.
#include "phidias/runs.h"

#include "small_model.h"

namespace phidias {
namespace {

class NamedRuns : public test::SmallModel {
 protected:
  std::vector<float> logits_of(const std::vector<TokenId>& ids, const Edits& edits = {}) {
    Trace trace(*engine_, ids);
    const auto key = trace.read(kValues.logits);
    trace.edit(edits);
    return run(trace)[key].floats;
  }
  Tensor value_of(const std::vector<TokenId>& ids, const ValueRef& value) {
    Trace trace(*engine_, ids);
    const size_t key = trace.read(Read{value});
    return run(trace).of(key);
  }
  std::vector<Traced> all(const std::vector<NamedRun>& runs) {
    auto traced = trace_runs(*engine_, runs);
    EXPECT_TRUE(traced.ok()) << traced.error().to_string();
    return traced.ok() ? std::move(*traced) : std::vector<Traced>(runs.size());
  }
  std::string error_of_runs(const std::vector<NamedRun>& runs) {
    const auto traced = trace_runs(*engine_, runs);
    EXPECT_FALSE(traced.ok());
    return traced.ok() ? "" : traced.error().to_string();
  }
  std::string error_of_json(std::string_view json) {
    const auto runs = runs_from_json(json, engine_->model());
    EXPECT_FALSE(runs.ok()) << json;
    return runs.ok() ? "" : runs.error().place.item;
  }
};

TEST_F(NamedRuns, AWholeLayerOfTheCleanRunGivesItsLogits) {
  // The run that is referred to comes last: order in the document means nothing.
  const auto traced =
      all({{"patched",
            ids_,
            {{kValues.logits}},
            {patch(kValues.layers[1].layer_output, {"clean", kValues.layers[1].layer_output})},
            {}},
           {"clean", other(), {{kValues.logits}}, {}, {}}});
  EXPECT_EQ(traced[0].of(0).floats, logits_of(other()));
  EXPECT_EQ(traced[1].of(0).floats, logits_of(other()));
  EXPECT_EQ(traced[0].entries.size(), 1U);
  EXPECT_EQ(traced[1].entries.size(), 1U);  // what others needed is not shown
  EXPECT_EQ(traced[0].edits.at(0).rows, ids_.size());
}

TEST_F(NamedRuns, APositionMapTakesEachPositionToItsPlace) {
  const auto stream = kValues.layers[1].layer_output;
  const auto queries = kValues.layers[2].self_attn.attention_queries;
  const Tensor clean = value_of(other(), stream);
  const Tensor clean_queries = value_of(other(), queries);
  const PositionMap map{{4, 2}, {7, 9}, {4, 5}};
  Edits expected = patch(stream, clean, map);
  expected += patch(queries, clean_queries, map);
  const auto traced =
      all({{"clean", other(), {}, {}, {}},
           {"patched",
            ids_,
            {{kValues.logits}},
            {patch(stream, {"clean", stream}, map), patch(queries, {"clean", queries}, map)},
            {}}});
  EXPECT_EQ(traced[1].of(0).floats, logits_of(ids_, expected));
  EXPECT_EQ(traced[1].edits.at(0).rows, 3U);
}

TEST_F(NamedRuns, AnotherRunsValueStandsWhereverATensorDoes) {
  const auto last = kValues.layers[0].layer_output.at(kLast);
  const Tensor clean = value_of(other(), last);
  Edits direct, named;
  direct += kValues.layers[2].layer_mid.at(3) += 0.5 * Operand(clean);
  named += kValues.layers[2].layer_mid.at(3) += 0.5 * Operand(RunValue{"clean", last});
  direct += project_out(kValues.layers[1].layer_output, clean);
  Edit projection = project_out(kValues.layers[1].layer_output, {});
  projection.tensor = nullptr;
  projection.from = RunValue{"clean", last};
  named += projection;
  const auto traced =
      all({{"clean", other(), {}, {}, {}}, {"patched", ids_, {{kValues.logits}}, named, {}}});
  EXPECT_EQ(traced[1].of(0).floats, logits_of(ids_, direct));
}

TEST_F(NamedRuns, OfSeveralLayersEachTakesItsOwnOrAllTakeTheOne) {
  const auto every = kValues.layers.all().layer_output.at(3);
  const auto one = kValues.layers[0].layer_output.at(3);
  for (const RunValue& source : {RunValue{"clean", every}, RunValue{"clean", one}}) {
    Edits expected;
    for (int32_t layer = 0; layer < 3; ++layer) {
      const bool own = source.value.layers != one.ref().layers;
      expected += kValues.layers[layer].layer_output.at(3) =
          Operand(value_of(other(), kValues.layers[own ? layer : 0].layer_output.at(3)));
    }
    const auto traced = all({{"clean", other(), {}, {}, {}},
                             {"patched", ids_, {{kValues.logits}}, {patch(every, source)}, {}}});
    EXPECT_EQ(traced[1].of(0).floats, logits_of(ids_, expected));
    ASSERT_EQ(traced[1].edits.size(), 1U);
    EXPECT_EQ(traced[1].edits[0].rows, 1U);
  }
  EXPECT_NE(
      error_of_runs({{"clean", other(), {}, {}, {}},
                     {"patched",
                      ids_,
                      {},
                      {patch(kValues.layers.range(0, 2).layer_output.at(3), {"clean", every})},
                      {}}})
          .find("3 layers"),
      std::string::npos);
}

TEST_F(NamedRuns, ChainsGoThroughAnEditedRun) {
  // Path patching: the middle run carries the clean head's effect, and the last one takes it.
  const auto head = kValues.layers[0].self_attn.attention_head_outputs.head(2);
  const auto later = kValues.layers[2].self_attn.attention_values;
  const auto traced =
      all({{"result", ids_, {{kValues.logits}}, {patch(later, {"middle", later})}, {}},
           {"middle", ids_, {}, {patch(head, {"clean", head})}, {}},
           {"clean", other(), {}, {}, {}}});
  Trace middle(*engine_, ids_);
  middle.edit(head = Operand(value_of(other(), head)));
  const auto key = middle.read(later);
  EXPECT_EQ(traced[0].of(0).floats, logits_of(ids_, {later = Operand(run(middle)[key])}));
}

TEST_F(NamedRuns, WhatDoesNotFitNamesTheRunAndTheEdit) {
  const auto stream = kValues.layers[1].layer_output;
  const NamedRun clean{"clean", other(), {}, {}, {}};
  const auto patched = [&](const Edit& edit) {
    return error_of_runs({clean, {"patched", ids_, {}, {edit}, {}}});
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(patched(patch(stream, {"cleen", stream})), "no run \"cleen\"");
  has(patched(patch(stream, {"cleen", stream})), "run patched, edit 1");
  has(patched(patch(stream, {"patched", stream})), "waits for it");
  has(patched(patch(stream, {"clean", kValues.layers[7].layer_output})), "run clean");
  has(patched(patch(stream, {"clean", stream.at(2)}, {{1, 2}})), "beside its position map");
  has(patched(patch(stream, {"clean", stream}, {{1, 2}, {2, 2}})), "chosen twice");
  has(patched(patch(stream, {"clean", stream}, {{99, 2}})), "run clean");
  has(patched(patch(stream.at({1, 2}), {"clean", stream.at({1, 2, 3})})), "cannot be spread");
  has(error_of_runs({clean, clean}), "two runs");
  has(error_of_runs({{"", ids_, {}, {}, {}}}), "no name");
  has(error_of_runs({{"a", ids_, {}, {patch(stream, {"b", stream})}, {}},
                     {"b", ids_, {}, {patch(stream, {"a", stream})}, {}}}),
      "waits for it");
  // Outside of a document there is no other run.
  Trace alone(*engine_, ids_);
  alone.edit(patch(stream, {"clean", stream}));
  has(error_of(alone), "document of runs");
}

TEST_F(NamedRuns, AreWrittenAndReadAsJson) {
  const auto runs = runs_from_json(R"({"runs": [
      {"name": "clean", "ids": [5, 6, 7, 8], "read": ["logits", {"value": "layers[0].layer_output",
       "moment": "before"}]},
      {"name": "patched", "ids": [5, 9, 7, 8], "grad": ["layers[0].layer_mid"],
       "metric": {"logit_diff": [11, 22]}, "edits": [
        {"value": "layers[1].layer_output", "op": "patch", "from": {"run": "clean"},
         "position_map": [[1, 2]]},
        {"value": "layers[0].layer_mid", "op": "add", "coef": 2, "at": "last",
         "tensor": {"run": "clean", "value": "layers[2].layer_mid[at=0]"}},
        {"value": "layers[1].mlp.mlp_neurons", "neurons": [3], "at": [1], "op": "patch",
         "from": {"run": "clean"}}]}]})",
                                   engine_->model());
  ASSERT_TRUE(runs.ok()) << runs.error().to_string();
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ((*runs)[0].reads[1].moment, Read::Moment::kBefore);
  const Edits& edits = (*runs)[1].edits;
  EXPECT_EQ(edits[0], patch(kValues.layers[1].layer_output,
                            {"clean", kValues.layers[1].layer_output}, {{1, 2}}));
  EXPECT_EQ(edits[1], (kValues.layers[0].layer_mid.at(kLast) +=
                       2.0 * Operand(RunValue{"clean", kValues.layers[2].layer_mid.at(0)})));
  const auto neuron = kValues.layers[1].mlp.mlp_neurons.neuron(3).at({1});
  EXPECT_EQ(edits[2], patch(neuron, {"clean", neuron}));  // the edited part, where none is named
  const auto json = to_json(edits);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*edits_from_json(*json), edits);
  const auto traced = all(*runs);
  EXPECT_EQ(traced[1].entries.at(0).name, "grad.layers.0.layer_mid");
}

TEST_F(NamedRuns, JsonThatMeansNothingIsRefusedWithItsPlace) {
  EXPECT_EQ(error_of_json("[]"), "/");
  EXPECT_EQ(error_of_json(R"({"runs": 3})"), "/");
  EXPECT_EQ(error_of_json(R"({"runs": [{"ids": [1]}]})"), "/runs/0/name");
  EXPECT_EQ(error_of_json(R"({"runs": [{"name": "a"}]})"), "/runs/0");
  EXPECT_EQ(error_of_json(R"({"runs": [{"name": "a", "ids": [4294967297]}]})"), "/runs/0/ids");
  EXPECT_EQ(error_of_json(R"({"runs": [{"name": "a", "ids": [1], "reads": []}]})"),
            "/runs/0/reads");
  EXPECT_EQ(error_of_json(R"({"runs": [{"name": "a", "ids": [1], "read": ["nothing"]}]})"),
            "/runs/0/read");
  EXPECT_EQ(error_of_json(R"({"runs": [{"name": "a", "ids": [1], "generate": -1}]})"),
            "/runs/0/generate");
  EXPECT_EQ(error_of_json(R"({"runs": [{"name": "a", "ids": [1], "metric": {"logits": 1}}]})"),
            "/runs/0/metric/logits");
  const auto edit = [&](const std::string& text) {
    return error_of_json(R"({"runs": [{"name": "a", "ids": [1], "edits": [{"value": "logits", )" +
                         text + "}]}]}");
  };
  EXPECT_EQ(edit(R"("op": "patch", "from": {"run": 3})"), "/runs/0/edits/0/from");
  EXPECT_EQ(edit(R"("op": "patch", "from": {"run": "b", "at": 1})"), "/runs/0/edits/0/from");
  EXPECT_EQ(edit(R"("op": "patch", "from": {"run": "b", "value": "x"})"),
            "/runs/0/edits/0/from/value");
  EXPECT_EQ(edit(R"("op": "patch", "from": {"run": "b"}, "tensor": 3)"), "/runs/0/edits/0/from");
  EXPECT_EQ(edit(R"("op": "patch", "tensor": 3, "position_map": [[1, 2]])"),
            "/runs/0/edits/0/position_map");
  EXPECT_EQ(edit(R"("op": "patch", "from": {"run": "b"}, "position_map": [[1]])"),
            "/runs/0/edits/0/position_map");
}

}  // namespace
}  // namespace phidias
