#include "tools/launch/rank_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tessera::comm {
namespace {

using ::testing::ElementsAre;

constexpr RankOutput::Time kStart{std::chrono::hours(1)};

// Returns the lines of a stream whose bytes arrive all at once.
std::string Lines(absl::string_view bytes) {
  RankOutput output(3);
  std::string text = output.Feed(bytes, kStart);
  return text + output.Finish();
}

TEST(RankOutputTest, EachLineHasTheRank) {
  EXPECT_EQ(Lines("one\n\ntwo\n"), "[3] one\n[3] \n[3] two\n");
  EXPECT_EQ(Lines("one\r\ntwo\r\n"), "[3] one\n[3] two\n");
  EXPECT_EQ(Lines("no end"), "[3] no end\n");
  EXPECT_EQ(Lines(""), "");
}

TEST(RankOutputTest, LinesWithoutTheRank) {
  const std::string limit(65536, 'x');
  RankOutput output(0, /*is_numbered=*/false);
  EXPECT_EQ(output.Feed("one\n10%\r20%\rdone\n" + limit + "rest\n", kStart),
            "one\n10%\ndone\n" + limit + "\nrest\n");
  EXPECT_EQ(output.Feed("end", kStart), "");
  EXPECT_EQ(output.Finish(), "end\n");
  EXPECT_EQ(output.prefix(), "");
}

TEST(RankOutputTest, LinesDoNotDependOnHowBytesArrive) {
  const std::string bytes = "one\ntwo\r\n10%\r20%\rdone\nend";
  const std::string lines = Lines(bytes);
  EXPECT_EQ(lines, "[3] one\n[3] two\n[3] 10%\n[3] done\n[3] end\n");
  for (size_t piece = 1; piece < bytes.size(); ++piece) {
    RankOutput output(3);
    std::string text;
    for (size_t begin = 0; begin < bytes.size(); begin += piece) {
      text += output.Feed(bytes.substr(begin, piece), kStart);
      EXPECT_TRUE(text.empty() || text.back() == '\n');
    }
    EXPECT_EQ(text + output.Finish(), lines) << piece;
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

// Regression: the last progress of a rank that hangs was never shown.
TEST(RankOutputTest, TheLastProgressOfASilentRankIsShown) {
  for (const char* progress : {"step 1\r", "\rstep 1"}) {
    RankOutput output(0);
    output.Feed("\rstep 0\r", kStart);
    const auto later = kStart + std::chrono::milliseconds(100);
    EXPECT_EQ(output.Feed(progress, later), "[0] step 0\n");
    EXPECT_EQ(output.ShowStalled(later), "");
    EXPECT_EQ(output.next_stall(), later + std::chrono::seconds(1));
    EXPECT_EQ(output.ShowStalled(output.next_stall()), "[0] step 1\n");
    EXPECT_EQ(output.next_stall(), RankOutput::Time::max());
    EXPECT_EQ(output.Feed("\n", later + std::chrono::seconds(2)), "");  // shown already
    EXPECT_EQ(output.Feed("next\n", later + std::chrono::seconds(2)), "[0] next\n");
    EXPECT_EQ(output.Finish(), "");
  }
}

TEST(RankOutputTest, AnUnfinishedLineThatIsNotProgressIsHeldBack) {
  RankOutput output(0);
  EXPECT_EQ(output.Feed("half", kStart), "");
  EXPECT_EQ(output.next_stall(), RankOutput::Time::max());
  EXPECT_EQ(output.ShowStalled(kStart + std::chrono::hours(1)), "");
}

// Regression: a line of 64 KiB was followed by an empty one, and nothing marked the lines that
// belong together.
TEST(RankOutputTest, LinesOver64KiBAreSplitAndMarked) {
  const std::string limit(65536, 'x');
  EXPECT_EQ(Lines(limit + "\nnext\n"), "[3] " + limit + "\n[3] next\n");
  EXPECT_EQ(Lines(limit + limit + "end\n\nnext\n"),
            "[3] " + limit + "\n[3]+ " + limit + "\n[3]+ end\n[3] \n[3] next\n");
  EXPECT_EQ(Lines(limit), "[3] " + limit + "\n");
}

TEST(RankOutputTest, ASplitDoesNotCutACharacter) {
  const std::string begin(65535, 'x');
  for (const std::string character : {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    EXPECT_EQ(Lines(begin + character + "\n"), "[3] " + begin + "\n[3]+ " + character + "\n");
  }
  const std::string not_utf8(65536, '\xbf');
  EXPECT_EQ(Lines(not_utf8 + "\n"), "[3] " + not_utf8 + "\n");
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
