#include "tools/plan/table.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

Figures Sample(const std::string& label, int ranks) {
  Figures figures;
  figures.label = label;
  figures.ranks = ranks;
  figures.batch = 1024;
  figures.unit = {"sequence", "token", 2048};
  figures.recompute = "none";
  figures.cost.set_step_seconds(19.3);
  figures.cost.set_exposed_seconds(0.656);
  figures.units_per_second = 1024 * 2048 / 19.3;
  figures.mfu = 0.71;
  figures.peak_bytes = int64_t{153} << 30;
  figures.limit_bytes = int64_t{75} << 30;
  figures.sent_bytes = int64_t{1300} << 30;
  return figures;
}

TEST(PlanTableTest, RowsByStrategyAndRanks) {
  std::vector<Figures> all = {Sample("ddp", 8), Sample("ddp", 512), Sample("mine", 8)};
  all[1].micro_batches = 32;
  all[1].recompute = "block";
  all[1].peak_bytes = int64_t{50} << 30;
  all[0].least = LeastMemory{int64_t{90} << 30, 4, "none"};
  all[2].fault = "a fault";
  all.push_back(Sample("mine", 512));
  all[3].batch = 64;
  EXPECT_EQ(FiguresTable(all, 300e9),
            R"(ddp
ranks    step  tokens/s    MFU  days      peak      spare      sent  exposed
    8  19.3 s      109K  71.0%  32.0   153 GiB  -78.0 GiB  1.27 TiB   656 ms
       needs 90.0 GiB with --micro_batches=4
  512  19.3 s      109K  71.0%  32.0  50.0 GiB   25.0 GiB  1.27 TiB   656 ms
       with --micro_batches=32 --recompute=block

mine
ranks    step  tokens/s    MFU  days      peak      spare      sent  exposed
    8  could not be planned
  512  19.3 s      109K  71.0%  32.0   153 GiB  -78.0 GiB  1.27 TiB   656 ms
       with --batch=64: another training
)");
}

TEST(PlanTableTest, FitsIn80Columns) {
  Figures widest = Sample("ddp", 1048576);
  widest.cost.set_step_seconds(3723);
  widest.cost.set_exposed_seconds(1234);
  for (const absl::string_view line : absl::StrSplit(FiguresTable({widest}, 300e12), '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(PlanTableTest, ManyRecomputedScopesAreCounted) {
  Figures figures = Sample("osdp", 8);
  figures.recompute = "blocks.0|blocks.1|blocks.2";
  EXPECT_THAT(FiguresTable({figures}, 0),
              testing::HasSubstr("with --recompute=blocks.0|blocks.1|blocks.2\n"));
  figures.recompute += "|blocks.3";
  figures.micro_batches = 2;
  EXPECT_THAT(FiguresTable({figures}, 0),
              testing::HasSubstr("with --micro_batches=2 --recompute of 4 scopes\n"));
}

TEST(PlanTableTest, AStepWithALimitOfItsOwnSaysSo) {
  std::vector<Figures> all = {Sample("ddp", 8), Sample("osdp", 8), Sample("fsdp", 8)};
  all[1].limit_bytes = int64_t{60} << 30;
  all[1].limit_is_set = true;
  // That of this machine, which has changed meanwhile.
  all[2].limit_bytes -= 1;
  const std::string table = FiguresTable(all, 0);
  EXPECT_THAT(table, testing::HasSubstr("\n       may use 60.0 GiB\n\nfsdp"));
  EXPECT_EQ(table.find("may use"), table.rfind("may use"));
}

TEST(PlanTableTest, NothingWasPlanned) {
  Figures failed = Sample("ddp", 8);
  failed.fault = "a fault";
  EXPECT_EQ(FiguresTable({failed}, 0), "");
  EXPECT_EQ(PlanTitle("gpt", "a cluster", {failed}), "");
}

TEST(PlanTableTest, Title) {
  EXPECT_EQ(PlanTitle("gpt: a step", "a cluster", {Sample("ddp", 8)}),
            "gpt: a step\nfor a cluster; a rank may use 75.0 GiB\n");
  // Regression: a processor of a long name.
  const std::string cpu = "cpu: Intel(R) Xeon(R) Processor, AVX3+BF16, 1 thread";
  EXPECT_EQ(PlanTitle("gpt: a step", cpu, {Sample("ddp", 8)}),
            absl::StrCat("gpt: a step\nfor ", cpu, ";\na rank may use 75.0 GiB\n"));
}

}  // namespace
}  // namespace tessera
