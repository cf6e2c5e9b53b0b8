#include "core/train/record/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const StepScale kScale = {.total_steps = 1000,
                          .unit = "token",
                          .units = 512,
                          .best_seconds = 0.00625,
                          .limit_seconds = 0.009,
                          .memory_bytes = 1320702444};

TEST(ProgressTest, StepLine) {
  EXPECT_EQ(StepLine({12, 2.3456, 0.871, 9.8e-4, 0.0125}, kScale),
            "step   12/1000 | loss    2.3456 | grad_norm    0.8710 | lr 9.80e-04 |    12.50 ms | "
            " 41.0K tokens/s | MFU  50.0% |  72.0% of limit | 1.23 GiB");
}

TEST(ProgressTest, StepLinesAlign) {
  const size_t length = StepLine({1, 2.3456, 0.871, 9.8e-4, 0.0125}, kScale).size();
  EXPECT_EQ(StepLine({1000, 1e-7, 123456.7, 0, 12.5}, kScale).size(), length);
  EXPECT_EQ(StepLine({999, 0, 10, 1, 0.5}, kScale).size(), length);
}

TEST(ProgressTest, AStepLineFitsIntoTheTerminal) {
  const StepReport report = {12, 2.3456, 0.871, 9.8e-4, 0.0125};
  EXPECT_EQ(StepLine(report, kScale, 80),
            "step   12/1000 | loss    2.3456 |    12.50 ms |  41.0K tokens/s | MFU  50.0%");
  EXPECT_EQ(StepLine(report, kScale, 100),
            "step   12/1000 | loss    2.3456 | grad_norm    0.8710 |    12.50 ms |  41.0K tokens/s "
            "| MFU  50.0%");
  EXPECT_EQ(StepLine(report, kScale, 40), "step   12/1000 | loss    2.3456");
  EXPECT_EQ(StepLine(report, kScale, 3), "step   12/1000");
  EXPECT_EQ(StepLine(report, kScale, 1000), StepLine(report, kScale));
}

TEST(ProgressTest, NotANumberHasNoSign) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(StepLine({1, -nan, std::copysign(nan, -1.0), 1, 1}, kScale), Not(HasSubstr("-nan")));
}

TEST(ProgressTest, TheBarShowsStepAndLossAndUsesTheWidth) {
  EXPECT_EQ(ProgressBar({500, 2.3456}, kScale, 83, 70),
            "[===========>          ]  50%  step 500/1000  loss 2.3456  1m 23s left");
  EXPECT_EQ(ProgressBar({1000, 2.3456}, kScale, 4, 79).size(), 79);
  EXPECT_EQ(ProgressBar({0, 5.5}, kScale, 4, 0),
            "[>         ]   0%  step 0/1000  loss 5.5000  4 s left");
}

// The output of 1000 steps that take `seconds` each.
std::string Printed(double seconds, bool terminal, int64_t log_every = 0) {
  std::FILE* out = std::tmpfile();
  double now = 100;
  {
    Progress progress(out, {.terminal = terminal, .log_every = log_every}, kScale,
                      [&now] { return now; });
    for (int64_t step = 1; step <= 1000; ++step) {
      now += seconds;
      progress.Step({step, 1, 1, 1e-3, seconds});
    }
  }
  std::string text(std::ftell(out), '\0');
  std::rewind(out);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
  std::fclose(out);
  return text;
}

TEST(ProgressTest, LinesToComeHaveTheNewScale) {
  std::FILE* out = std::tmpfile();
  double now = 100;
  Progress progress(out, {}, kScale, [&now] { return now; });
  progress.Step({1, 1, 1, 1e-3, 0.0125});
  StepScale half = kScale;
  half.best_seconds /= 2;
  progress.SetScale(half);
  now += 10;
  progress.Step({2, 1, 1, 1e-3, 0.0125});
  std::string text(std::ftell(out), '\0');
  std::rewind(out);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
  std::fclose(out);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_THAT(lines[0], HasSubstr("MFU  50.0%"));
  EXPECT_THAT(lines[1], HasSubstr("MFU  25.0%"));
}

TEST(ProgressTest, SlowStepsAllHaveALine) {
  const std::vector<std::string> lines = absl::StrSplit(Printed(1, false), '\n');
  EXPECT_EQ(lines.size(), 1000 + 1);
  EXPECT_THAT(lines[16], HasSubstr("step   17/1000"));
}

TEST(ProgressTest, FastStepsShareLines) {
  const std::vector<std::string> lines = absl::StrSplit(Printed(0.01, false), '\n');
  EXPECT_EQ(lines.size(), 1 + 20 + 1);
  EXPECT_THAT(lines[0], HasSubstr("step    1/1000"));
  EXPECT_THAT(lines[1], HasSubstr("step   50/1000"));
  EXPECT_THAT(lines[1], HasSubstr("   10.00 ms"));
  EXPECT_THAT(lines[20], HasSubstr("step 1000/1000"));
}

TEST(ProgressTest, LogEveryChoosesTheLines) {
  const std::vector<std::string> lines = absl::StrSplit(Printed(0.01, false, 300), '\n');
  EXPECT_EQ(lines.size(), 1 + 3 + 1 + 1);
  EXPECT_THAT(lines[2], HasSubstr("step  600/1000"));
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(Printed(0.0001, false, 1), '\n')).size(), 1001);
}

TEST(ProgressTest, NoControlCharactersInAPipe) {
  EXPECT_THAT(Printed(0.01, false), Not(HasSubstr("\r")));
  EXPECT_THAT(Printed(0.01, false), Not(HasSubstr("\x1b")));
}

TEST(ProgressTest, ATerminalHasABarThatGoesAwayAtTheEnd) {
  const std::string text = Printed(0.5, true);
  EXPECT_THAT(text, HasSubstr("]  50%  step 500/1000  loss 1.0000  4m 10s left"));
  const std::string last_line = text.substr(text.rfind("step 1000/1000"));
  EXPECT_THAT(last_line, Not(HasSubstr("left")));
}

}  // namespace
}  // namespace tessera
