#include "kernel_test.h"

namespace phidias::test {
namespace {

TEST(Dispatch, TheScalarTableIsAlwaysThereAndFirst) {
  ASSERT_FALSE(available_tables().empty());
  EXPECT_EQ(available_tables().front()->name, "scalar");
  EXPECT_EQ(compiled_tables().front()->name, "scalar");
}

TEST(Dispatch, TheBestTableIsTheLastThatThisCpuCanRun) {
  EXPECT_EQ(&best_table(), available_tables().back());
  for (const KernelTable* table : available_tables()) {
    EXPECT_TRUE(cpu_features().covers(table->required)) << table->name;
    EXPECT_EQ(table_by_name(table->name), table);
  }
}

TEST(Dispatch, ATableThatThisCpuCannotRunIsListedButNotGiven) {
  size_t given = 0;
  for (const KernelTable* table : compiled_tables()) {
    const bool can_run = cpu_features().covers(table->required);
    EXPECT_EQ(table_by_name(table->name) != nullptr, can_run) << table->name;
    given += can_run ? 1U : 0U;
  }
  EXPECT_EQ(given, available_tables().size());
  EXPECT_EQ(table_by_name("abacus"), nullptr);
}

TEST(Dispatch, EveryTableIsComplete) {
  for (const KernelTable* table : available_tables()) {
    EXPECT_TRUE(table->rms_norm && table->rope && table->silu_mul && table->add) << table->name;
    EXPECT_TRUE(table->quantize_q8 && table->argmax && table->attention_exact && table->round_bf16)
        << table->name;
    for (size_t type = 0; type < kKvTypeCount; ++type) {
      EXPECT_TRUE(table->attention[type] && table->store_key[type] && table->store_value[type])
          << table->name;
    }
  }
}

}  // namespace
}  // namespace phidias::test
