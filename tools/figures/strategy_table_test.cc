#include "tools/figures/strategy_table.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

// Returns a table with the longest usual labels and values for so many strategies.
std::string Table(int strategies, const std::string& label, const std::string& remark = "") {
  std::vector<StrategyTable::Column> columns;
  for (int s = 0; s < strategies; ++s) {
    columns.push_back({absl::StrCat(label, s), {}});
    if (!remark.empty()) columns.back().remarks = {remark, "failed"};
  }
  StrategyTable table(std::move(columns), {"estimated", "measured*"});
  for (const char* row : {"step time, median", "  over that of the first that ran",
                          "reduce-scatter along shard, calls",
                          "all-reduce along replica, data_parallel, tensor_parallel, calls"}) {
    table.AddRow(row, {static_cast<size_t>(strategies), {"1023 MiB", "11.123456"}});
  }
  return table.ToString();
}

TEST(StrategyTableTest, NoLineHasMoreThan80Columns) {
  for (const int strategies : {1, 2, 3, 6}) {
    for (const std::string label :
         {"ddp", "fsdp:reshard=no:prefetch=2:", "/a_path_without_any_colon_in_its_very_long_name",
          "fsdp:recompute=blocks.*.mlp.gelu:micro_batches=16:batch=1024:shard=gradients"}) {
      for (const std::string remark :
           {"", "batch 1024: another training, does not fit: 44.9 MiB"}) {
        const std::string table = Table(strategies, label, remark);
        for (const auto line : absl::StrSplit(table, '\n')) {
          EXPECT_LE(line.size(), 80u) << table;
          EXPECT_FALSE(absl::EndsWith(line, " ")) << table;
        }
      }
    }
  }
}

TEST(StrategyTableTest, BlocksRepeatTheLabelsOfRows) {
  StrategyTable table({{"ddp", {}},
                       {"fsdp:reshard=no:prefetch=2", {"does not fit: 44.9 MiB"}},
                       {"lean", {"failed"}}},
                      {"estimated", "measured"});
  table.AddRow("step time, median", {{"50.0 ms", "110 ms"}, {"100 ms", kNoValue}, {"1 s", "2 s"}});
  table.AddRow("all-gather along data, model, shard, calls",
               {{"1", "1"}, {"12", kNoValue}, {kNoValue, kNoValue}});
  EXPECT_EQ(table.ToString(),
            R"(                                                           fsdp:reshard=no
                                                ddp            :prefetch=2
                                                             does not fit:
                                                                  44.9 MiB
                                estimated  measured   estimated   measured
step time, median                 50.0 ms    110 ms      100 ms          -
all-gather along data, model,
    shard, calls                        1         1          12          -

                                               lean
                                             failed
                                estimated  measured
step time, median                     1 s       2 s
)");
}

TEST(StrategyTableTest, OneCellForEachStrategy) {
  StrategyTable table({{"ddp", {}}, {"größer", {}}}, {""});
  table.AddRow("step time", {{"50.0 ms"}, {"0.1 s"}});
  table.AddRow("  of no value", {{kNoValue}, {kNoValue}});
  EXPECT_EQ(table.ToString(),
            R"(                ddp   größer
step time   50.0 ms    0.1 s
)");
}

TEST(WrapTest, BreaksAtSeparators) {
  EXPECT_THAT(Wrap("one two three", 8), ElementsAre("one two", "three"));
  EXPECT_THAT(Wrap("one two", 3), ElementsAre("one", "two"));
  EXPECT_THAT(Wrap("abcdefgh i", 3), ElementsAre("abc", "def", "gh", "i"));
  EXPECT_THAT(Wrap("fsdp:a=1:b=2", 8, ':'), ElementsAre("fsdp:a=1", ":b=2"));
  EXPECT_THAT(Wrap("größer", 4), ElementsAre("größ", "er"));
  EXPECT_THAT(Wrap("", 4), ElementsAre(""));
}

}  // namespace
}  // namespace tessera
