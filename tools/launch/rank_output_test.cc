#include "tools/launch/rank_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tessera::comm {
namespace {

using ::testing::ElementsAre;

constexpr RankOutput::Time kStart{std::chrono::hours(1)};

std::string Whole(absl::string_view bytes) {
  RankOutput output(3);
  std::string text = output.Feed(bytes, kStart);
  return text + output.Finish();
}

TEST(RankOutputTest, EachLineHasTheRank) {
  EXPECT_EQ(Whole("one\n\ntwo\n"), "[3] one\n[3] \n[3] two\n");
  EXPECT_EQ(Whole("one\r\ntwo\r\n"), "[3] one\n[3] two\n");
  EXPECT_EQ(Whole("no end"), "[3] no end\n");
  EXPECT_EQ(Whole(""), "");
}

TEST(RankOutputTest, LinesStayWholeWhateverThePieces) {
  const std::string bytes = "one\ntwo\r\n10%\r20%\rdone\nend";
  const std::string whole = Whole(bytes);
  EXPECT_EQ(whole, "[3] one\n[3] two\n[3] 10%\n[3] done\n[3] end\n");
  for (size_t piece = 1; piece < bytes.size(); ++piece) {
    RankOutput output(3);
    std::string text;
    for (size_t begin = 0; begin < bytes.size(); begin += piece) {
      text += output.Feed(bytes.substr(begin, piece), kStart);
      EXPECT_TRUE(text.empty() || text.back() == '\n');
    }
    EXPECT_EQ(text + output.Finish(), whole) << piece;
  }
}

TEST(RankOutputTest, ProgressIsALineASecond) {
  for (const bool starts_with_return : {true, false}) {
    RankOutput output(0);
    std::string text;
    for (int i = 0; i < 30; ++i) {
      const std::string step = "step " + std::to_string(i);
      text += output.Feed(starts_with_return ? "\r" + step : step + "\r",
                          kStart + i * std::chrono::milliseconds(100));
    }
    text += output.Finish();
    EXPECT_EQ(text, "[0] step 0\n[0] step 10\n[0] step 20\n[0] step 29\n");
  }
}

TEST(RankOutputTest, LongLinesAreCut) {
  const std::string text = Whole(std::string(100'000, 'x'));
  EXPECT_EQ(text.size(), 100'000 + 2 * 5);
}

TEST(RankOutputTest, KeepsTheLastLines) {
  RankOutput output(1);
  for (int i = 0; i < 12; ++i) output.Feed("line " + std::to_string(i) + "\n", kStart);
  output.Feed("end", kStart);
  output.Finish();
  EXPECT_THAT(output.last_lines(), ElementsAre("line 3", "line 4", "line 5", "line 6", "line 7",
                                               "line 8", "line 9", "line 10", "line 11", "end"));
}

}  // namespace
}  // namespace tessera::comm
