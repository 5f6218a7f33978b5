#include <gtest/gtest.h>

#include <set>

#include "phidias/values.h"
#include "trace/positions.h"
#include "trace/value_table.h"

namespace phidias {
namespace {

ValueRef parsed(std::string_view path) {
  auto ref = parse_value(path);
  EXPECT_TRUE(ref.ok()) << path << ": " << (ref.ok() ? "" : ref.error().to_string());
  return ref.ok() ? *ref : ValueRef();
}

TEST(ValuePath, EverySpellingOfAPlaceIsTheSameHandle) {
  const ValueRef expected = kValues.layers[3].self_attn.attention_queries.ref();
  for (const char* path :
       {"layers[3].self_attn.attention_queries", "layers.3.self_attn.attention_queries",
        "layers[3].attention_queries", "layers.3.attention_queries",
        "model.layers.3.self_attn.attention_queries", "blocks.3.attn.hook_rot_q"}) {
    EXPECT_EQ(parsed(path), expected) << path;
  }
  EXPECT_EQ(parsed("model.layers.2.self_attn.o_proj.input"),
            kValues.layers[2].self_attn.attention_premix.ref());
  EXPECT_EQ(parsed("blocks[2].hook_resid_post"), kValues.layers[2].layer_output.ref());
  EXPECT_EQ(parsed("embed_tokens.output"), kValues.token_embeddings.ref());
}

TEST(ValuePath, RangesAndSelectionsAreRead) {
  EXPECT_EQ(parsed("layers[*].layer_mid"), kValues.layers.all().layer_mid.ref());
  EXPECT_EQ(parsed("layers[2:5].layer_mid"), kValues.layers.range(2, 5).layer_mid.ref());
  EXPECT_EQ(parsed("layers[-1].layer_mid"), kValues.layers[-1].layer_mid.ref());
  EXPECT_EQ(parsed("layers[0].attention_probabilities[head=7, query=last, key=0:4]"),
            kValues.layers[0]
                .self_attn.attention_probabilities.head(7)
                .query(kLast)
                .key(Positions::range(0, 4))
                .ref());
  EXPECT_EQ(parsed("layers[1].mlp.mlp_neurons[neuron=3,5,at=2,4]"),
            kValues.layers[1].mlp.mlp_neurons.neurons({3, 5}).at({2, 4}).ref());
}

TEST(ValuePath, EveryNameComesBackAsItIsWritten) {
  for (const ValueInfo& info : value_infos()) {
    const ValueRef ref{info.id, {true, 1}, {}};
    EXPECT_EQ(parsed(ref.to_string()).id, info.id) << ref.to_string();
    EXPECT_EQ(parsed(value_name(info.id, 1)).id, info.id);
    const ValueRef part{info.id, {false, 1, 3}, {Positions({1, 3}), {0, 2}, {}, {4}}};
    const ValueRef again = parsed(part.to_string());
    EXPECT_EQ(again.selection, part.selection) << part.to_string();
    if (has_layers(info.module)) {
      EXPECT_EQ(again.layers, part.layers);
    }
  }
}

TEST(ValuePath, MistakesAreToldWithWhatWasMeant) {
  const auto message = [](std::string_view path) {
    const auto ref = parse_value(path);
    EXPECT_FALSE(ref.ok()) << path;
    return ref.ok() ? std::string() : ref.error().to_string();
  };
  EXPECT_NE(message("layers[0].layer_outputs").find("layer_output"), std::string::npos);
  EXPECT_NE(message("layer_output").find("layers[3].layer_output"), std::string::npos);
  EXPECT_NE(message("block_output").find("vision.layers[3].block_output"), std::string::npos);
  EXPECT_NE(message("vision.logits").find("leave \"vision.\" out"), std::string::npos);
  EXPECT_NE(message("vision.block_output").find("vision.layers[*].block_output"),
            std::string::npos);
  EXPECT_NE(message("layers[0].logits").find("leave the layer out"), std::string::npos);
  message("layers[0].mlp.attention_queries");
  message("layers[x].layer_output");
  message("layers[0");
  message("layers[0].layer_output[head]=3");
  message("layers[0].layer_output[corner=3]");
  message("layers[0].layer_output[at=soon]");
  message("");
}

TEST(ValueTable, TheStandardValuesAreTwentyFiveOfWhichTwoCannotBeWritten) {
  size_t standard = 0;
  size_t writable = 0;
  std::set<std::string_view> names;
  for (const ValueInfo& info : value_infos()) {
    EXPECT_EQ(&info_of(info.id), &info);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    if (!info.standard) continue;
    ++standard;
    writable += info.writable ? 1 : 0;
  }
  EXPECT_EQ(standard, 25U);
  EXPECT_EQ(writable, 23U);
}

TEST(Positions, AreResolvedAgainstThePromptAndTheRun) {
  const std::vector<TokenId> prompt{5, 6, 7, 6};
  const auto chosen = [&](const Positions& positions, size_t rows) {
    auto set = PositionSet::resolve(positions, prompt, rows, "here");
    std::vector<size_t> list;
    EXPECT_TRUE(set.ok()) << (set.ok() ? "" : set.error().to_string());
    for (size_t i = 0; set.ok() && i < set->size(); ++i) {
      list.push_back(set->position(i));
      EXPECT_EQ(set->index(list.back()), i);
    }
    return list;
  };
  using List = std::vector<size_t>;
  EXPECT_EQ(chosen({}, 6), (List{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(chosen(kPrompt, 6), (List{0, 1, 2, 3}));
  EXPECT_EQ(chosen(kDecode, 6), (List{4, 5}));
  EXPECT_EQ(chosen(kLast, 6), (List{3}));
  EXPECT_EQ(chosen(-1, 6), (List{3}));
  EXPECT_EQ(chosen({4, 1}, 6), (List{4, 1}));
  EXPECT_EQ(chosen(Positions::range(-2), 6), (List{2, 3, 4, 5}));
  EXPECT_EQ(chosen(Positions::where_token(6), 6), (List{1, 3}));
  for (const Positions& wrong : {Positions(6), Positions(-5), Positions({1, 1}),
                                 Positions::range(3, 2), Positions::where_token(9)}) {
    EXPECT_FALSE(PositionSet::resolve(wrong, prompt, 6, "here").ok()) << wrong.to_string();
  }
}

TEST(Positions, ComeBackFromTheirText) {
  for (const char* text :
       {"all", "prompt", "decode", "last", "4:", "1:3", "-2:", "2,5", "token 7"}) {
    const auto positions = Positions::parse(text);
    ASSERT_TRUE(positions.ok()) << text;
    EXPECT_EQ(positions->to_string(), text);
  }
  for (const char* text : {"", "x", "1:x", "2,", "1;2", "token", "last,2"})
    EXPECT_FALSE(Positions::parse(text).ok()) << text;
}

}  // namespace
}  // namespace phidias
