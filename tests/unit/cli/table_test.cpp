#include "terminal/table.h"

#include <gtest/gtest.h>

namespace phidias::cli {
namespace {

const Style kPlain{Terminal{}};

TEST(Table, AlignsByDisplayWidth) {
  Table table({{"name", Align::kLeft}, {"bytes", Align::kRight}});
  table.add({"日本", "7"});
  table.add({"abcdefg", "123456"});
  EXPECT_EQ(table.to_string(kPlain),
            "name      bytes\n"
            "日本          7\n"
            "abcdefg  123456\n");
}

TEST(Table, NeedsNoTitlesAndNoFullRows) {
  Table table({{}, {}});
  table.add({"a", "b"});
  table.add({"longer"});
  EXPECT_EQ(table.to_string(kPlain, 2), "  a       b\n  longer\n");
}

TEST(Table, HeadIsBoldWhereColoursAreWanted) {
  Table table({{"x", Align::kLeft}});
  table.add({"y"});
  EXPECT_EQ(table.to_string(Style{Terminal{true, true, 80}}), "\x1b[1mx\x1b[0m\ny\n");
}

}  // namespace
}  // namespace phidias::cli
